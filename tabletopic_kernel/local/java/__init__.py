"""The JDK, the jars, and the class archive for fast JVM startup."""
