"""All that reaches PyIceberg's private names or replaces a part of it, and only for this package's objects.

PyIceberg itself is never changed: a notebook that uses it beside this package has it as it was installed.
``catalogs.own`` turns a catalog that was just opened into one of ours; its tables, their metadata and their
transactions are subclasses, too. Each seam says what PyIceberg would have to offer to make it needless.
"""
