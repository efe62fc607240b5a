"""What needs Ray, an S3 server, Spark or ClickHouse runs by `make test-fleet`, which installs them; else it is skipped."""

import os
from collections.abc import Iterator

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("fleet") and not os.environ.get("OOMCTL_FLEET"):
            item.add_marker(pytest.mark.skip(reason="needs Ray, an S3 server, Spark or ClickHouse: make test-fleet"))


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    """The URL of a bucket on a server of this machine that speaks S3's language; commands find it by their environment."""
    from moto.server import ThreadedMotoServer
    from pyarrow.fs import S3FileSystem

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    told = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in told.items():
            patch.setenv(name, value)
        S3FileSystem(endpoint_override=f"{host}:{port}", scheme="http", allow_bucket_creation=True).create_dir("fleet")
        yield "s3://fleet"
    server.stop()
