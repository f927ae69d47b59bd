"""Certificates: authorities, serving and client certificates, kubeconfigs."""
