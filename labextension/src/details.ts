/** The details below a row: the table's columns and the topic's last events, fetched when unfolded. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { reasonOf } from './api';
import type { IColumn, IEvent, IRow, ITopicSchema, TopicApi } from './api';
import { outerType, partsOf } from './columntypes';
import { css, h, setAttribute, setText } from './dom';
import type { IView } from './dom';

/** Displayed events. Staged batches are not: each is committed a moment later, and that is displayed. */
const EVENTS = 12;
const ASKED = 3 * EVENTS;

/** Fetched again when the row shows something new, and only while unfolded. */
export class RowDetails implements IView<IRow> {
  constructor(
    private readonly _topic: string,
    private readonly _api: TopicApi,
    private readonly _trans: TranslationBundle
  ) {
    this.node = h('div', { class: css('details') }, this._table, this._columns, this._events);
  }

  readonly node: HTMLElement;

  update(row: IRow): void {
    if (this.node.hidden) {
      return;
    }
    setText(this._table, row.table === null ? '' : this._trans.__('Table %1', row.table));
    const stand = [row.enabled, row.schema_version, row.commits, row.state, row.error].join('|');
    if (stand !== this._stand) {
      this._stand = stand;
      const columns = this._trans.__('Columns');
      void this._fetch(this._columns, columns, this._api.schema(this._topic), schema => this._schema(schema));
      const lately = this._trans.__('Last events');
      void this._fetch(this._events, lately, this._api.events(this._topic, ASKED), ({ events }) => [
        this._eventList(events.filter(event => event.type !== 'FilesStaged').slice(0, EVENTS))
      ]);
    }
  }

  /** Display an answer, unless a newer one was asked for, or it is displayed already: what is unfolded stays so. */
  private async _fetch<T>(
    section: HTMLElement,
    title: string,
    asked: Promise<T>,
    content: (answer: T) => HTMLElement[]
  ): Promise<void> {
    const heading = h('h4', {}, title);
    if (section.firstChild === null) {
      section.replaceChildren(heading, h('p', { class: css('quiet') }, this._trans.__('Loading…')));
    }
    setAttribute(section, 'aria-busy', 'true');
    this._asked.set(section, asked);
    let text: string | null;
    let fresh: HTMLElement[] | null;
    try {
      const answer = await asked;
      text = JSON.stringify(answer);
      fresh = text === this._texts.get(section) ? null : content(answer);
    } catch (error) {
      text = null;
      fresh = [h('p', { class: css('error') }, reasonOf(error))];
    }
    if (this._asked.get(section) !== asked) {
      return;
    }
    if (text === null) {
      this._stand = null; // retry with the next overview
    }
    if (fresh !== null) {
      section.replaceChildren(heading, ...fresh);
      this._texts.set(section, text);
    }
    setAttribute(section, 'aria-busy', null);
  }

  private _schema(schema: ITopicSchema): HTMLElement[] {
    if (schema.columns.length === 0) {
      return [h('p', { class: css('quiet') }, this._trans.__('No columns yet: the first record determines them.'))];
    }
    const newest = schema.versions.at(-1);
    const versions =
      newest === undefined
        ? null
        : this._trans.__('Registered: %1, newest version %2 (id %3)', newest.subject, newest.version, newest.id);
    const tree = h('ul', { class: css('columns') }, ...schema.columns.map(column => this._column(column)));
    return versions === null ? [tree] : [tree, h('p', { class: css('quiet') }, versions)];
  }

  private _column(column: IColumn): HTMLElement {
    const parts = partsOf(column.type);
    const words = outerType(column.type) + (column.required ? ` · ${this._trans.__('required')}` : '');
    const line = [h('span', { class: css('columnName') }, column.name), ' ', h('span', { class: css('columnType') }, words)];
    const item = h('li', { title: column.doc });
    if (parts.length === 0) {
      item.append(...line);
      return item;
    }
    const inner = h('ul', { class: css('columns') });
    const fold = h('details', {}, h('summary', {}, ...line), inner);
    fold.addEventListener('toggle', () => {
      if (fold.open && inner.firstChild === null) {
        inner.append(...parts.map(part => this._column({ ...part, required: false, doc: null })));
      }
    });
    item.append(fold);
    return item;
  }

  private _eventList(events: readonly IEvent[]): HTMLElement {
    if (events.length === 0) {
      return h('p', { class: css('quiet') }, this._trans.__('No events yet.'));
    }
    const items = events.map(event => {
      const at = new Date(event.at_ms);
      const time = h('time', { datetime: at.toISOString(), title: at.toLocaleString() }, at.toLocaleTimeString());
      const sign = h('span', { class: css('sign'), 'data-tone': event.tone, 'aria-hidden': 'true' });
      return h('li', {}, sign, time, h('span', {}, event.text));
    });
    return h('ul', { class: css('events') }, ...items);
  }

  private readonly _table = h('p', { class: css('quiet') });
  private readonly _columns = h('section');
  private readonly _events = h('section');
  private _stand: string | null = null;
  /** By section: the newest request, and the displayed answer. */
  private readonly _asked = new Map<HTMLElement, Promise<unknown>>();
  private readonly _texts = new Map<HTMLElement, string | null>();
}
