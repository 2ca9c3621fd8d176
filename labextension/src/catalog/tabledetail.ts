/** A table of a catalog by its metadata: columns, files, snapshots and their difference, refs, properties. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { outerType, partsOf } from '../columntypes';
import { css, h, textButton } from '../dom';
import { number } from '../words';
import { bytes, choice, draggable, fill, fold, grid } from './parts';
import type { CatalogApi, IFiles, ISnapshot, ITable } from './protocol';

/** What a detail needs. */
export interface IDetailSite {
  readonly api: CatalogApi;
  readonly trans: TranslationBundle;
  /** Insert a cell into the notebook. */
  readonly insert: (source: string) => void;
  /** The topics with a table, by the table's name without quotes. */
  readonly topics: () => ReadonlyMap<string, string>;
  /** Show a topic in the sidebar. */
  readonly showTopic: (topic: string) => void;
}

export function tableDetail(table: ITable, site: IDetailSite): HTMLElement[] {
  const { trans, insert, showTopic } = site;
  const { topic } = table;
  // The first word may be one of SQL's own.
  const name = table.table.replace(/^[A-Za-z_]\w*/, '"$&"');
  const query = (at = '') => `%%lake${at}\nSELECT *\nFROM ${name}\nLIMIT 20\n`;
  const head = h('div', { class: css('catalogButtons') },
    textButton(trans.__('Query in a Cell'), () => insert(query())),
    textButton(trans.__('Profile in a Cell (reads the rows)'), () => insert(`%%lake\nSUMMARIZE ${name}\n`)),
    topic === null ? null : textButton(trans.__('Show the Topic %1', topic), () => showTopic(topic))
  );
  const properties = Object.entries(table.properties);
  return [
    h('h2', {}, draggable(table.table, name)),
    h('p', {}, facts(table, trans)),
    h('p', { class: css('quiet') }, table.location),
    head,
    fold(trans.__('Columns (%1)', table.columns.length), () => [columns(table, trans)], true),
    fold(trans.__('Snapshots (%1)', number(table.snapshot_count)), () => snapshots(table, query, site), true),
    fold(trans.__('Partitions, files and bounds of columns'), async () => files(table, await site.api.files(table.table), trans)),
    fold(trans.__('Branches and tags (%1)', table.refs.length), () => [h('ul', {}, ...table.refs.map(ref => h('li', {}, ref)))]),
    fold(trans.__('Properties (%1)', properties.length), () => [
      grid(trans.__('Properties'), [trans.__('name'), trans.__('value')], properties)
    ])
  ];
}

function facts(table: ITable, trans: TranslationBundle): string {
  return [
    table.rows === null ? null : trans._n('%2 row', '%2 rows', table.rows, number(table.rows)),
    table.files === null ? null : trans._n('%2 file', '%2 files', table.files, number(table.files)),
    table.topic === null ? trans.__('not of a table topic') : trans.__('of the topic %1', table.topic),
    table.partition_by.length > 0 ? trans.__('partitioned by %1', table.partition_by.join(', ')) : null,
    table.sort_by.length > 0 ? trans.__('sorted by %1', table.sort_by.join(', ')) : null,
    trans.__('format version %1', table.format_version)
  ]
    .filter(text => text !== null)
    .join(' · ');
}

function columns(table: ITable, trans: TranslationBundle): HTMLElement {
  const heads = [trans.__('column'), trans.__('type'), trans.__('presence'), trans.__('doc')];
  const rows = table.columns.map(({ name, type, required, doc }) => [
    draggable(name, `"${name.replace(/"/g, '""')}"`),
    partsOf(type).length === 0 ? type : h('details', {}, h('summary', {}, outerType(type)), type),
    required ? trans.__('required') : trans.__('optional'),
    doc ?? ''
  ]);
  return grid(trans.__('Columns'), heads, rows);
}

function snapshots(table: ITable, query: (at: string) => string, site: IDetailSite): HTMLElement[] {
  const { trans, insert } = site;
  if (table.snapshots.length === 0) {
    return [h('p', { class: css('quiet') }, trans.__('No snapshots yet: the table is empty.'))];
  }
  const heads = [trans.__('time'), trans.__('operation'), trans.__('added rows'), trans.__('rows'), trans.__('files')];
  const rows = table.snapshots.map(each => {
    const cell = query(` --at ${each.snapshot_id}`);
    const button = textButton(trans.__('Query as of this'), () => insert(cell));
    button.setAttribute('aria-label', trans.__('Query as of snapshot %1', each.snapshot_id));
    const figures = [each.added_rows, each.rows, each.files].map(number);
    return [when(each), each.operation, ...figures, draggable(each.snapshot_id, cell), button];
  });
  const all = grid(trans.__('Snapshots'), [...heads, trans.__('snapshot'), trans.__('query')], rows, [2, 3, 4]);
  return table.snapshots.length < 2 ? [all] : [all, comparison(table, site)];
}

function comparison(table: ITable, { api, trans }: IDetailSite): HTMLElement {
  const options = table.snapshots.map(each => `${when(each)} · ${each.snapshot_id}`);
  const outcome = h('div', { role: 'status' });
  const clear = () => outcome.replaceChildren();
  const before = choice(trans.__('From snapshot'), options, 1, clear);
  const after = choice(trans.__('To snapshot'), options, 0, clear);
  const idOf = (select: HTMLSelectElement) => table.snapshots[Number(select.value)]?.snapshot_id ?? '';
  const signed = (count: number) => (count > 0 ? '+' : '') + number(count);
  const show = async () => {
    const { rows, files: more, changes } = await api.difference(table.table, idOf(before), idOf(after));
    const lines = changes.length > 0 ? changes : [trans.__('the columns are the same')];
    const counts = trans.__('%1 rows, %2 files', signed(rows), signed(more));
    return [h('ul', {}, ...[counts, ...lines].map(text => h('li', {}, text)))];
  };
  const button = textButton(trans.__('Compare'), () => void fill(outcome, show));
  return h('div', {}, h('div', { class: css('catalogButtons') }, before, '→', after, button), outcome);
}

function files({ location }: ITable, all: IFiles, trans: TranslationBundle): HTMLElement[] {
  const count = (value: number | null) => (value === null ? '-' : number(value));
  const text = [trans.__('rows'), trans.__('size')];
  const partition = trans.__('partition');
  return [
    h('p', {},
      `${trans._n('%2 partition', '%2 partitions', all.partition_count, number(all.partition_count))}, `,
      `${trans._n('%2 file', '%2 files', all.file_count, number(all.file_count))}, ${bytes(all.bytes)}`,
      all.file_count > all.files.length ? ` (${trans.__('the largest are shown')})` : ''
    ),
    grid(trans.__('Partitions'), [partition, trans.__('files'), ...text],
      all.partitions.map(each => [each.partition || '-', number(each.files), number(each.rows), bytes(each.bytes)]), [1, 2, 3]),
    grid(trans.__('Bounds of columns'),
      [trans.__('column'), trans.__('nulls'), trans.__('lower bound'), trans.__('upper bound'), trans.__('size')],
      all.columns.map(each => [
        each.name, count(each.nulls), each.lower ?? '-', each.upper ?? '-', each.bytes === null ? '-' : bytes(each.bytes)
      ]), [1, 4]),
    grid(trans.__('Files'), [trans.__('file'), trans.__('content'), partition, ...text],
      all.files.map(each => [each.path.replace(`${location}/`, ''), each.content, each.partition || '-', number(each.rows), bytes(each.bytes)]), [3, 4])
  ];
}

function when(snapshot: ISnapshot): string {
  return new Date(snapshot.at_ms).toLocaleString();
}
