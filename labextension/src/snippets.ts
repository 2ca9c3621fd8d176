/** Text for the clipboard: cells that are ready to run. */

/** A name as SQL takes it: quoted where it is not plain. */
export function sqlName(dotted: string): string {
  const quoted = (part: string) => (/^[A-Za-z_]\w*$/.test(part) ? part : `"${part.replace(/"/g, '""')}"`);
  return dotted.split('.').map(quoted).join('.');
}

/** A cell that shows the newest rows of a table. */
export function queryCell(table: string): string {
  return `%%lake
SELECT *
FROM ${sqlName(table)}
ORDER BY _kafka_metadata.timestamp DESC
LIMIT 20
`;
}

/** A cell that gives any Python kernel of this environment the topic as an object. */
export function connectionCell(topic: string): string {
  return `%load_ext tabletopic_kernel
from tabletopic_kernel import Workbench

workbench = Workbench()
topic = workbench.topic(${JSON.stringify(topic)})
topic.status()
`;
}
