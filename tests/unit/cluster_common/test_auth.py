import stat

import pytest

from cluster_common.transport import auth

TOKEN = "a-token-of-some-length"


@pytest.fixture(autouse=True)
def no_token(monkeypatch):
    monkeypatch.delenv(auth.TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv(auth.TOKEN_FILE_VARIABLE, raising=False)
    auth.forget()
    yield
    auth.forget()


def test_without_a_token_nothing_is_added():
    assert auth.current_token() is None
    assert auth.metadata() == ()
    assert auth.server_interceptors() == []


def test_the_environment_is_read_at_the_first_question(monkeypatch, tmp_path):
    monkeypatch.setenv(auth.TOKEN_VARIABLE, TOKEN)
    assert auth.current_token() == TOKEN
    auth.forget()
    monkeypatch.delenv(auth.TOKEN_VARIABLE)
    file = tmp_path / "token"
    file.write_text(TOKEN + "2\n")
    monkeypatch.setenv(auth.TOKEN_FILE_VARIABLE, str(file))
    assert auth.current_token() == TOKEN + "2"


def test_what_was_configured_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv(auth.TOKEN_VARIABLE, TOKEN)
    auth.configure(None)
    assert auth.current_token() is None


@pytest.mark.parametrize("token", ["short", "x" * 2_000, "with a space in it !", "ümläut" * 4])
def test_a_token_that_cannot_protect_or_travel_is_refused(token):
    with pytest.raises(ValueError, match="the token"):
        auth.configure(token)


def test_a_named_file_that_is_missing_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv(auth.TOKEN_FILE_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"SHOAL_TOKEN_FILE names .*none: No such file"):
        auth.current_token()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_loopback_needs_no_token(host):
    auth.require_token_for(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "node-7"])
def test_other_hosts_need_a_token(host):
    with pytest.raises(ValueError, match="a token is needed"):
        auth.require_token_for(host)
    auth.configure(TOKEN)
    auth.require_token_for(host)


def test_the_token_file_is_made_once_and_private(tmp_path):
    file = tmp_path / "deep" / "token"
    token = auth.make_token_file(file)
    assert len(token) >= auth.TOKEN_CHARACTERS_MIN
    assert auth.make_token_file(file) == token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
