"""Which URLs a Backend may have."""

import pytest

from control_plane.resources.urls import check_url, check_webhook_url


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("HTTP://localhost:65535/a%20b", "http://localhost:65535/a%20b"),
        ("http://vllm_gpu.svc.cluster.local./v1", "http://vllm_gpu.svc.cluster.local./v1"),
    ],
)
def test_a_usable_url_is_kept_without_its_last_slash(url: str, kept: str) -> None:
    """Names, both kinds of addresses, ports and base paths are accepted."""
    assert check_url(url) == kept


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http//api.openai.com/v1", "begin with"),
        ("https:/api.openai.com", "begin with"),
        ("localhost:8000/v1", "begin with"),
        ("ftp://host/v1", "begin with"),
        ("http://host:70000/v1", "port"),
        ("http://host:0/v1", "port"),
        ("http://host:/v1", "port"),
        ("http://host:eighty/v1", "port"),
        ("http://::1:8000/v1", "brackets"),
        ("http://fe80::1/v1", "brackets"),
        ("http://[::zz]/v1", "IPv6"),
        ("http://[fe80::1%25eth0]/v1", "zone"),
        ("http://" + "a" * 300 + "/v1", "longer than 253"),
        ("http://" + "a" * 64 + ".example/v1", "label"),
        ("http://a..b/v1", "label"),
        ("http://-a.example/v1", "label"),
        ("http:///v1", "no host"),
        ("http://1.2.3.400/v1", "IPv4"),
        ("http://user:pass@host/v1", "credentials"),
        ("http://host/v1?api-version=1", "no query"),
        ("http://host/v1#x", "no query"),
        ("http://host/a/../b", "segments"),
        ("http://host//v1", "segments"),
        ("http://host/a/%2e%2E/b", "segments"),
        ("http://host/a/.%2e", "segments"),
        ("http://host/a%2F..%2fb", "segments"),
        ("http://host/v 1", "blanks"),
        ("http://ho\nst/v1", "blanks"),
        ("http://bücher.example/v1", "ASCII"),
        ("http://host/" + "a" * 3000, "longer than 2048"),
    ],
)
def test_nonsense_is_refused_with_its_reason(url: str, reason: str) -> None:
    """What Envoy could not use, or would send keys to by mistake, is refused."""
    with pytest.raises(ValueError, match=reason):
        check_url(url)


def test_the_refusal_quotes_nothing_of_the_url() -> None:
    """A password in a URL appears in no message."""
    with pytest.raises(ValueError, match="credentials") as refusal:
        check_url("https://user:hunter2@host/v1")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/", "https://h.example/a/b/?sig=x%2Fy&v=1", "http://[::1]:9000", "http://h/?"]
)
def test_webhooks_are_taken_as_they_are(url: str) -> None:
    """With a query, with their last slash, on private addresses too."""
    assert check_webhook_url(url) == url


@pytest.mark.parametrize(
    "url", ["h/x", "http://u:hunter2@h/", "http://h/#x", 'http://h/?a="', "http://h/?" + "a" * 3000]
)
def test_wrong_webhooks_are_refused(url: str) -> None:
    """In words that quote nothing of them."""
    with pytest.raises(ValueError, match=r"begin|user|query|longer") as refusal:
        check_webhook_url(url)
    assert "hunter2" not in str(refusal.value)
