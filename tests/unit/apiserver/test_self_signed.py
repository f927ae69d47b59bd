"""A self-signed certificate, generated in another process."""

from cryptography import x509

from podfit.apiserver.auth.certs.selfsigned import self_signed


async def test_it_serves_the_names_it_was_made_for() -> None:
    pair = await self_signed("node-1", ("node-1", "127.0.0.1"))
    cert = x509.load_pem_x509_certificate(pair.cert)
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node-1"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert b"PRIVATE KEY" in pair.key
