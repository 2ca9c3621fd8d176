/** Text for the clipboard: cells ready to run. */
import type { TopicApi } from './api';

/** A table's name in SQL: quoted, as namespaces may be words of SQL; a plain last part, after a dot, need not be. */
export function sqlName(dotted: string): string {
  const parts = dotted.split('.');
  const quoted = (part: string, at: number) =>
    at > 0 && at === parts.length - 1 && /^[A-Za-z_]\w*$/.test(part) ? part : `"${part.replace(/"/g, '""')}"`;
  return parts.map(quoted).join('.');
}

/** A cell that shows rows of a table: the newest, if it has the column that tells. */
export async function queryCell(table: string, api: TopicApi): Promise<string> {
  const { columns = [] } = await api.table(table).catch(() => ({ columns: [] })); // a new topic has no table yet
  const newest = columns.some(({ name }) => name === '_kafka_metadata') ? 'ORDER BY _kafka_metadata.timestamp DESC\n' : '';
  return `%%lake
SELECT *
FROM ${sqlName(table)}
${newest}LIMIT 20
`;
}

/** A cell that provides the topic as an object in any Python kernel of this environment. */
export function connectionCell(topic: string): string {
  return `%load_ext tabletopic_kernel
from tabletopic_kernel import Workbench

workbench = Workbench()
topic = workbench.topic(${JSON.stringify(topic)})
topic.status()
`;
}
