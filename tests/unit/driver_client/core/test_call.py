from driver_client.core.call import CallTemplate, function_body


def test_a_body_is_named_by_its_content():
    assert function_body(b"x", "f").hash == function_body(b"x", "g").hash
    assert function_body(b"x", "f").hash != function_body(b"y", "f").hash
    assert len(function_body(b"x", "f").hash) == 16


def test_a_call_is_named_after_what_it_was_given():
    body = function_body(b"x", "module.f")
    assert CallTemplate(body=body).call_name == "module.f"
    assert CallTemplate(method_name="m").call_name == "m"
    assert CallTemplate(method_name="m", call_name="n").call_name == "n"


def test_templates_are_compared_by_identity():
    assert CallTemplate(method_name="m") != CallTemplate(method_name="m")
