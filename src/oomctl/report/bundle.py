"""The chart code that a page carries: Vega, Vega-Lite and Vega-Embed in one script, written when the package is built."""

from importlib.resources import files

from oomctl.schemas.errors import ExitCode, OomctlError

FILE = "vega.js"
SNIPPET = "window.vegaEmbed = vegaEmbed;"


def make() -> str:
    """The script, from vl-convert, which a build has and an installation need not have."""
    import vl_convert

    script: str = vl_convert.javascript_bundle(SNIPPET)
    # A script element ends at these letters, wherever they stand.
    return script.replace("</script", "<\\/script")


def chart_code() -> str:
    """The script.

    Raises:
        OomctlError: If this is a source tree in which none was built, without vl-convert.
    """
    built = files("oomctl.report") / FILE
    if built.is_file():
        return built.read_text(encoding="utf-8")
    try:
        return make()
    except ImportError:
        raise OomctlError(
            "the chart code was not built into this installation",
            "install oomctl anew, or pip install vl-convert-python; --format json needs no charts",
            ExitCode.ENVIRONMENT,
        ) from None
