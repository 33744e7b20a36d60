"""The version of the package: that of the router it comes with."""

VERSION = "0.1.0"
