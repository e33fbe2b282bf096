"""Parsers of the messages that callers, browsers and controllers send."""

from merkatd.api.http.settings import ApiSettings
from merkatd.api.xmlrpc.codec import call_of
from merkatd.api.xmlrpc.errors import RpcFault
from merkatd.protocol.bus_messages import TO_DAEMON, VERSION
from merkatd.protocol.wire_format import LARGEST_BYTES, unpack
from merkatd.web.base.form_reader import MOST_LONG_BYTES, fields_of
from merkatd.web.web_server import cookie_of
from tests.worst.search import Parser

BODY = int(ApiSettings().body_mib * 2**20)
"""The bytes of a call or a form."""
HEADER = 16_384
"""The bytes of an HTTP header."""

_OURS = f'{{"v":{VERSION},'
"""The start of a message in the daemon's version of the protocol."""
BUS = Parser(
    name="message on the bus",
    read=lambda text: unpack(text.encode("utf-8", "surrogatepass"), TO_DAEMON),
    bytes_=LARGEST_BYTES,
    words=(
        *("{", "}", "[", "]", ",", ":", '"', '"a"', '"a{n}":1,', "1", "-", "e", ".", "\\", "\\u"),
        *("\\ud800", "null", "true", " ", "\n", "1e1", "[],", "{},", '{"a":', "9", "0,"),
    ),
    frames=(
        ("", ""),
        (_OURS + '"kind":"remember","session":"","number":1,"id":"","body":{"memory":[', "0]}}"),
        (_OURS + '"kind":"set_bids","session":"","number":1,"id":"a","body":{"bids":{', "}}}"),
        (
            _OURS + '"kind":"report","session":"","number":1,"id":"a","body":{"text":"',
            '"}}',
        ),
        (_OURS + '"kind":"remember","session":"","number":', ',"id":"","body":{"memory":0}}'),
    ),
    known=(
        ("", "[", ""),
        ("", '{"a":', ""),
        (_OURS + '"kind":"remember","session":"","number":1,"id":"","body":{"memory":', "[", ""),
        (
            _OURS + '"kind":"remember","session":"","number":1,"id":"","body":{"memory":[',
            "0,",
            "0]}}",
        ),
        (
            _OURS + '"kind":"remember","session":"","number":1,"id":"","body":{"memory":[',
            "{}," + " " * 40,
            "0]}}",
        ),
        (
            _OURS + '"kind":"remember","session":"","number":1,"id":"","body":{"memory":{',
            '"{n}":0,' + " " * 23,
            '"":0}}}',
        ),
        (
            _OURS + '"kind":"set_bids","session":"","number":1,"id":"a","body":{"bids":{',
            '"{n}":{},' + " " * 37,
            '"999999999":{}}}}',
        ),
        ('{"v":', "1", ""),
        ('{"v":"', "\\u0041", '"}'),
        ("", " ", ""),
        ('{"v":-', "1", "e1}"),
    ),
)
CALL = Parser(
    name="XML-RPC call",
    read=lambda text: call_of(text.encode(), ApiSettings().depth),
    bytes_=BODY,
    words=(
        *("<value>", "</value>", "<array><data>", "</data></array>", "<struct>", "</struct>"),
        *("<member>", "</member>", "<name>a{n}</name>", "<int>1</int>", "<string>", "</string>"),
        *("&amp;", "&#65;", "<![CDATA[", "]]>", "<!--", "-->", "a", " ", "<?a?>", "<a b='", "'"),
        *("<param>", "</param>", "<double>1e9</double>", "<value><int>1</int></value>"),
    ),
    frames=(
        ("", ""),
        ("<methodCall><methodName>a</methodName><params>", "</params></methodCall>"),
        (
            "<methodCall><methodName>a</methodName><params><param><value>",
            "</value></param></params></methodCall>",
        ),
        (
            "<methodCall><methodName>a</methodName><params><param><value><array><data>",
            "</data></array></value></param></params></methodCall>",
        ),
    ),
    known=(
        ("<methodCall>", "<a>", ""),
        (
            "<methodCall><methodName>a</methodName><params>",
            "<param><value><int>1</int></value></param>",
            "</params></methodCall>",
        ),
        (
            "<methodCall><methodName>a</methodName><params><param><value><array><data>",
            "<value/>",
            "</data></array></value></param></params></methodCall>",
        ),
        (
            "<methodCall><methodName>a</methodName><params><param><value><struct>",
            "<member><name>{n}</name><value/></member>",
            "</struct></value></param></params></methodCall>",
        ),
        (
            "<methodCall><methodName>a</methodName><params><param><value><string>",
            "&#65;",
            "</string></value></param></params></methodCall>",
        ),
        ("<methodCall><methodName>", "a<!---->", "</methodName></methodCall>"),
        ("<methodCall ", "a{n}='' ", "/>"),
        ("<methodCall a='", "a", ""),
        ("<methodCall><methodName>a</methodName><params><param><value><int>", "1", ""),
    ),
    refuses=(RpcFault,),
)
FORM = Parser(
    name="web form",
    read=lambda text: fields_of(text.encode()),
    bytes_=MOST_LONG_BYTES,
    words=("a", "{n}", "=", "&", ";", "%", "%41", "%C3%A9", "+", "a{n}=1&", "é", "%0"),
    known=(
        ("", "&", ""),
        ("", "a&", ""),
        ("", "{n}=&", ""),
        ("a=", "%41", ""),
        ("a=", "%", ""),
        ("a=", "+", ""),
        ("", "%C3%A9=", ""),
    ),
)
COOKIE = Parser(
    name="cookie",
    read=lambda text: cookie_of(text, "merkat"),
    bytes_=HEADER,
    words=("a", "=", ";", '"', "\\", "\\054", " ", "a{n}=1;", ",", "$"),
    frames=(("", ""), ('a="', '"'), ("a=", "")),
    known=(('a="', "\\", '"'), ('a="', "\\0", '"'), ("", "a", ""), ("", "a=a;", ""), ("", " ", "")),
)

MESSAGES = (BUS, CALL, FORM, COOKIE)
