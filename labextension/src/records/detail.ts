/** One record whole: what became of it, key, value as a tree, headers, schema, bytes. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { Chip } from '../chip';
import { css, h, setShown, setText, textButton } from '../dom';
import { cellText } from '../grid/protocol';
import { contentOf } from '../grid/whole';
import { timeText, toneOf } from './protocol';
import type { IRecord, IWholeRecord } from './protocol';

export class RecordDetail {
  constructor(
    private readonly _trans: TranslationBundle,
    back: () => void
  ) {
    const close = () => {
      this.close();
      back();
    };
    const head = h('div', { class: css('wholeHead') }, this._title, textButton(_trans.__('Close'), close));
    this.node.append(head, this._body);
    this.node.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        close();
      }
    });
    this.close();
  }

  readonly node = h('section', { class: css('recordsDetail') });

  close(): void {
    setShown(this.node, false);
  }

  /** What is known of it already, until the rest comes. */
  announce(record: IRecord): void {
    const title = this._trans.__('Partition %1, offset %2', record.partition, record.offset);
    setText(this._title, title);
    this._body.setAttribute('aria-label', title);
    setShown(this.node, true);
  }

  show(record: IRecord, whole: IWholeRecord): void {
    const chip = new Chip();
    chip.update(record.fate === null ? null : { text: record.fate.text, tone: toneOf(record.fate) });
    chip.node.classList.add(css('recordsFate'));
    const { registered } = whole;
    const schema = registered !== null ? [this._schema(record.schema_id ?? '', registered)] : [];
    const headers = whole.headers.map(([key, value]) => h('li', {}, h('b', {}, `${key}: `), cellText(value)));
    this._body.replaceChildren(
      chip.node,
      h('p', { class: css('quiet') }, timeText(record.timestamp_ms)),
      this._part(this._trans.__('Key'), contentOf(whole.key, this._trans)),
      this._part(this._trans.__('Value'), contentOf(whole.value, this._trans)),
      ...(headers.length > 0 ? [this._part(this._trans.__('Headers'), [h('ul', {}, ...headers)])] : []),
      ...schema,
      this._part(this._trans.__('Bytes of the value'), contentOf(whole.raw, this._trans), false)
    );
  }

  say(text: string): void {
    this._body.replaceChildren(h('p', {}, text));
  }

  private _schema(id: string, schema: NonNullable<IWholeRecord['registered']>): HTMLElement {
    const columns = schema.columns.map(column => h('li', {}, column));
    const name = this._trans.__('Schema id %1: version %2 of %3', id, schema.version, schema.subject);
    return this._part(name, [h('ul', {}, ...columns)], false);
  }

  private _part(name: string, content: readonly HTMLElement[], open = true): HTMLElement {
    return h('details', { open }, h('summary', {}, name), ...content);
  }

  private readonly _title = h('b');
  // Scrolls, so it takes the focus.
  private readonly _body = h('div', { class: css('wholeBody'), tabindex: '0', role: 'group' });
}
