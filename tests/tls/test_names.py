"""Names of certificates, as Java writes them."""

from odradek.handlers.certificates import subject_name


def name(*attributes):
    return subject_name({"subject": tuple((each,) for each in attributes)})


def test_the_order_and_the_short_names():
    subject = (("countryName", "US"), ("organizationName", "Example"), ("commonName", "alice"))
    assert name(*subject) == "CN=alice,O=Example,C=US"


def test_characters_that_are_escaped():
    assert name(("commonName", 'a,b+c"d\\e<f>g;h')) == 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h'
    assert name(("organizationName", " x ")) == "O=\\ x\\ "
    assert name(("commonName", "  a  b\r ")) == "CN=\\ \\ a  b\\\r\\ "
    assert name(("commonName", "  ")) == "CN=\\ \\ "
    assert name(("commonName", "a\0b")) == "CN=a\\00b"


def test_several_attributes_in_one_place():
    subject = ((("commonName", "alice"), ("userId", "7")),)
    assert subject_name({"subject": subject}) == "CN=alice+UID=7"


def test_an_address_of_e_mail_has_its_number():
    assert name(("emailAddress", "a@b")) == "1.2.840.113549.1.9.1=#1603614062"
