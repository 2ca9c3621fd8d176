/** People's queries in the sidebar: saved ones by name, and the last ones; a click inserts one into a cell. */
import { Dialog, InputDialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { deleteIcon } from '@jupyterlab/ui-components';
import { reasonOf } from './api';
import type { IPastQuery, IQueries, ISavedQuery, TopicApi } from './api';
import { css, h, iconButton, setShown, setText, textButton } from './dom';
import { ago } from './words';

/** From this many queries on, a filter is worth its space. */
const FILTER_FROM = 6;
/** A typing pause, after which the server is asked for queries with the word. */
const PAUSE_MS = 250;

/** The section: folded at first, and read anew each time that it is unfolded or a query was saved. */
export class QueryList {
  constructor(
    private readonly _api: TopicApi,
    private readonly _insert: (cell: string) => void,
    private readonly _trans: TranslationBundle
  ) {
    this._word = h('input', {
      type: 'search',
      class: `jp-mod-styled ${css('filter')}`,
      placeholder: _trans.__('Filter queries'),
      'aria-label': _trans.__('Filter queries')
    });
    this._word.addEventListener('input', () => {
      clearTimeout(this._timer);
      this._timer = setTimeout(() => void this.refresh(), PAUSE_MS);
    });
    this._clear = textButton(_trans.__('Clear the history'), () => void this._forget());
    this.node = h(
      'details',
      { class: css('queries') },
      h('summary', {}, _trans.__('Queries')),
      this._word,
      this._note,
      this._savedTitle,
      this._saved,
      this._lastTitle,
      this._last,
      this._clear
    );
    this.node.addEventListener('toggle', () => {
      if (this.node.open) {
        void this.refresh();
      }
    });
  }

  readonly node: HTMLDetailsElement;

  /** Read the queries, if they are on display; the newest answer counts. */
  async refresh(): Promise<void> {
    if (!this.node.open) {
      return;
    }
    const word = this._word.value.trim();
    const asked = this._api.queries(word);
    this._asked = asked;
    try {
      const answer = await asked;
      if (this._asked === asked) {
        this._show(answer, word);
      }
    } catch (error) {
      setText(this._note, reasonOf(error));
      setShown(this._note, true);
    }
  }

  private _show({ saved, history }: IQueries, word: string): void {
    const chosen = saved.filter(({ name, cell }) => `${name}\n${cell}`.toLowerCase().includes(word.toLowerCase()));
    setShown(this._word, word !== '' || saved.length + history.length >= FILTER_FROM);
    const none = word ? this._trans.__('No query matches.') : this._trans.__('Queries of %lake cells appear here.');
    setText(this._note, none);
    setShown(this._note, chosen.length + history.length === 0);
    setShown(this._savedTitle, chosen.length > 0);
    setShown(this._lastTitle, history.length > 0);
    setShown(this._clear, word === '' && history.length > 0);
    this._saved.replaceChildren(...chosen.map(query => this._savedItem(query)));
    this._last.replaceChildren(...history.map(query => this._pastItem(query)));
  }

  private _savedItem({ name, cell }: ISavedQuery): HTMLElement {
    const label = this._trans.__('Delete the query %1', name);
    const remove = iconButton(deleteIcon, label, () => void this._delete(name));
    return h('li', { class: css('query') }, this._button(cell, h('span', { class: css('queryName') }, name)), remove);
  }

  private _pastItem({ cell, at_ms, failed }: IPastQuery): HTMLElement {
    const when = ago(at_ms, Date.now(), this._trans);
    const text = failed ? this._trans.__('%1 · failed', when) : when;
    return h('li', { class: css('query') }, this._button(cell, h('span', { class: css('quiet') }, text)));
  }

  private _button(cell: string, about: HTMLElement): HTMLElement {
    const code = h('code', {}, beginning(cell));
    const button = h('button', { type: 'button', class: css('queryText'), title: cell.slice(0, 2_000) }, about, code);
    button.addEventListener('click', () => this._insert(cell));
    return button;
  }

  private async _delete(name: string): Promise<void> {
    const title = this._trans.__('Delete the query %1?', name);
    if (await confirmed(title, this._trans.__('Delete'), this._trans)) {
      await this._change(this._api.deleteQuery(name));
    }
  }

  private async _forget(): Promise<void> {
    const title = this._trans.__('Clear the history of queries? Saved ones stay.');
    if (await confirmed(title, this._trans.__('Clear'), this._trans)) {
      await this._change(this._api.forgetQueries());
    }
  }

  private async _change(change: Promise<void>): Promise<void> {
    try {
      await change;
    } catch (error) {
      Notification.error(reasonOf(error), { autoClose: false });
    }
    await this.refresh();
    this.node.querySelector<HTMLElement>('summary')?.focus(); // the button is gone
  }

  private readonly _word: HTMLInputElement;
  private readonly _note = h('p', { class: css('quiet') });
  private readonly _savedTitle = h('h4', {}, this._trans.__('Saved'));
  private readonly _saved = h('ul', { class: css('list'), role: 'list' });
  private readonly _lastTitle = h('h4', {}, this._trans.__('Last queries'));
  private readonly _last = h('ul', { class: css('list'), role: 'list' });
  private readonly _clear: HTMLButtonElement;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _asked: Promise<IQueries> | null = null;
}

/** Ask for a name, and save a cell's text; false if declined or failed. */
export async function saveQuery(cell: string, api: TopicApi, trans: TranslationBundle): Promise<boolean> {
  const answer = await InputDialog.getText({
    title: trans.__('Save Query'),
    label: trans.__('Name; a query with this name is replaced'),
    okLabel: trans.__('Save')
  });
  const name = answer.value?.trim() ?? '';
  if (!answer.button.accept || name === '') {
    return false;
  }
  try {
    await api.saveQuery(name, cell);
  } catch (error) {
    Notification.error(reasonOf(error), { autoClose: false });
    return false;
  }
  Notification.success(trans.__('Saved as %1; it is among the sidebar’s queries', name), { autoClose: 3_000 });
  return true;
}

async function confirmed(title: string, label: string, trans: TranslationBundle): Promise<boolean> {
  const buttons = [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.warnButton({ label })];
  const { button } = await showDialog({ title, buttons, defaultButton: 0 });
  return button.accept;
}

/** The first lines of a cell with SQL, without the magic's own. */
function beginning(cell: string): string {
  const text = cell.replace(/^\s*%%?lake(?!\S)\s*/, '');
  return text.split('\n').slice(0, 3).join('\n').slice(0, 200) || cell;
}
