/** Where to look, and for what. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { css, h, setShown } from '../dom';
import type { Query } from './protocol';

const PLACES = ['newest', 'oldest', 'offset', 'time'] as const;
type Place = (typeof PLACES)[number];

/** A form; Enter in any field searches. */
export class SearchForm {
  constructor(trans: TranslationBundle, search: () => void) {
    const words: Record<Place, string> = {
      newest: trans.__('Newest first'),
      oldest: trans.__('Oldest first'),
      offset: trans.__('From an offset'),
      time: trans.__('From a time')
    };
    this._place.append(...PLACES.map(place => h('option', { value: place }, words[place])));
    this._place.addEventListener('change', () => this._placed());
    const field = (label: string, input: HTMLElement) =>
      h('label', { class: css('recordsField') }, h('span', {}, label), input);
    this._offsetField = field(trans.__('Offset'), this._offset);
    this._timeField = field(trans.__('Time (UTC)'), this._time);
    const condition = field(trans.__('Condition (SQL)'), this._where);
    condition.classList.add(css('recordsWhere'));
    this.node.setAttribute('aria-label', trans.__('Search'));
    this._submit.textContent = trans.__('Search');
    this.node.append(
      field(trans.__('Read'), this._place),
      this._offsetField,
      this._timeField,
      field(trans.__('Partition'), this._partition),
      field(trans.__('Key'), this._key),
      condition,
      this._submit
    );
    this.node.addEventListener('submit', event => {
      event.preventDefault();
      search();
    });
    this._placed();
  }

  readonly node = h('form', { class: css('recordsForm'), role: 'search' });

  focus(): void {
    this._place.focus();
  }

  /** Live reading begins at the end. */
  readNewest(): void {
    this._place.value = 'newest';
    this._placed();
  }

  /** What records to show, without where to look. */
  filters(): Query {
    const fields = { partition: this._partition.value, key: this._key.value, where: this._where.value };
    return Object.fromEntries(Object.entries(fields).filter(([, text]) => text.trim() !== ''));
  }

  /** Where to look. */
  place(): Query {
    const place = this._place.value as Place;
    if (place === 'time') {
      return { at: this._time.value.trim() };
    }
    return { start: place === 'offset' ? this._offset.value.trim() || '0' : place };
  }

  private _placed(): void {
    setShown(this._offsetField, this._place.value === 'offset');
    setShown(this._timeField, this._place.value === 'time');
    if (this._place.value === 'time' && this._time.value === '') {
      this._time.value = `${new Date(Date.now() - 3_600_000).toISOString().slice(0, 19)}Z`;
    }
  }

  private readonly _place = h('select');
  private readonly _offset = h('input', { type: 'text', size: '12', placeholder: '0', spellcheck: 'false' });
  private readonly _time = h('input', { type: 'text', size: '20', spellcheck: 'false' });
  private readonly _partition = h('input', { type: 'number', min: '0', step: '1' });
  private readonly _key = h('input', { type: 'text', size: '12', spellcheck: 'false' });
  private readonly _where = h('input', {
    type: 'text',
    spellcheck: 'false',
    placeholder: "country = 'NL' AND price > 50"
  });
  private readonly _submit = h('button', { type: 'submit', class: `jp-mod-styled jp-mod-accept ${css('button')}` });
  private readonly _offsetField: HTMLElement;
  private readonly _timeField: HTMLElement;
}
