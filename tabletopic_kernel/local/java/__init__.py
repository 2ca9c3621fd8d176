"""The JDK, the jars, and the archive of classes that lets a JVM start fast."""
