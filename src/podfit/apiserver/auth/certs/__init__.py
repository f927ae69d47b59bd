"""Certificates: CAs, serving and client certificates, kubeconfigs."""
