/** Dead letters of a topic: by reason over time, whole, and what can be done with those that a condition selects. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { reasonOf } from '../api';
import { grid } from '../catalog/parts';
import { css, h, setAttribute, setBusy, setWords, textButton } from '../dom';
import { keepingFocus } from '../focus';
import { bars } from '../grid/profile';
import type { IPageView } from '../lazypage';
import type { WorkbenchModel } from '../model';
import { RecordDetail } from '../records/detail';
import { RecordList } from '../records/list';
import { placeOf, timeText } from '../records/protocol';
import type { IRecord } from '../records/protocol';
import { replayLetters } from '../replay';
import { number } from '../words';
import { LettersApi, conditionOf, steps } from './protocol';
import type { ILetters } from './protocol';

const SHOWN = 50;
const MOST_IN_FILE = 1_000;

export class LettersView implements IPageView {
  constructor(
    private readonly _topic: string,
    private readonly _model: WorkbenchModel,
    private readonly _trans: TranslationBundle
  ) {
    this._api = new LettersApi(_model.api, _topic);
    this._list = new RecordList(_trans, record => void this._look(record));
    this._detail = new RecordDetail(_trans, () => this._list.focusSelected());
    this._actions = [
      textButton(_trans.__('Replay…'), () => void this._replay()),
      textButton(_trans.__('Drop…'), () => void this._drop()),
      textButton(_trans.__('Download'), () => void this._download())
    ];
    this.node.append(
      h('h2', {}, _trans.__('Dead letters of %1', _topic)),
      this._form(),
      h('div', { class: css('recordsBar') }, ...this._actions, this._status),
      this._groups,
      h('div', { class: css('recordsSplit') }, this._list.node, this._detail.node)
    );
    _model.changed.connect(this._counted, this);
    void this._show();
  }

  readonly node = h('div', { class: `jp-TableTopic ${css('records', 'letters')}` });

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._model.changed.disconnect(this._counted, this);
  }

  setVisible(visible: boolean): void {
    this._isVisible = visible;
    this._counted();
  }

  focus(): void {
    if (!this.node.contains(document.activeElement)) {
      this._where.focus();
    }
  }

  private _form(): HTMLElement {
    const submit = h('button', { type: 'submit', class: `jp-mod-styled ${css('button')}` }, this._trans.__('Show'));
    const label = h('label', { class: css('recordsField', 'recordsWhere') },
      h('span', {}, this._trans.__('Condition')), this._where
    );
    this._where.placeholder = "reason = 'unknown_schema' AND partition = 0";
    const form = h('form', { class: css('recordsForm'), role: 'search' }, label, submit);
    form.addEventListener('submit', event => {
      event.preventDefault();
      this._detail.close();
      void this._show();
    });
    return form;
  }

  /** Read them again if their number has changed. */
  private _counted(): void {
    const count = this._model.row(this._topic)?.dead_letters ?? null;
    if (count !== this._count && this._isVisible && !this._isDisposed) {
      void this._show();
    }
  }

  private async _show(): Promise<void> {
    const turn = ++this._turn;
    this._count = this._model.row(this._topic)?.dead_letters ?? null;
    setAttribute(this.node, 'aria-busy', 'true');
    try {
      const letters = await this._api.look(this._where.value, SHOWN);
      if (turn === this._turn && !this._isDisposed) {
        this._selected = this._where.value;
        keepingFocus(this.node, () => this._draw(letters));
      }
    } catch (error) {
      if (turn === this._turn) {
        this._say(reasonOf(error), true);
      }
    }
    if (turn === this._turn) {
      setAttribute(this.node, 'aria-busy', null);
    }
  }

  private _draw({ letters, step_ms, groups, records }: ILetters): void {
    const trans = this._trans;
    this._number = letters;
    const each = step_ms < 86_400_000 ? trans.__('each hour') : trans.__('each day');
    const rows = groups.map(group => [
      textButton(group.reason, () => this._choose(group.reason)),
      number(group.letters),
      bars(steps(group, step_ms), trans.__('Letters %1', each)),
      timeText(group.last_ms),
      group.message
    ]);
    const heads = [trans.__('reason'), trans.__('letters'), each, trans.__('newest (UTC)'), trans.__('a message')];
    this._groups.replaceChildren(...(rows.length > 0 ? [grid(trans.__('Reasons'), heads, rows, [1])] : []));
    this._list.replace(records);
    if (!records.some(record => placeOf(record) === this._wanted)) {
      this._detail.close();
    }
    for (const button of this._actions) {
      setBusy(button, letters === 0);
    }
    const all = trans._n('%2 dead letter', '%2 dead letters', letters, number(letters));
    this._say(letters > records.length ? trans.__('%1; the newest %2 are listed.', all, records.length) : `${all}.`, false);
  }

  private _choose(reason: string): void {
    this._where.value = `reason = '${reason.replace(/'/g, "''")}'`;
    this._detail.close();
    void this._show();
  }

  private _say(text: string, failed: boolean): void {
    setWords(this._status, text);
    setAttribute(this._status, 'data-failed', failed ? 'true' : null);
  }

  private async _look(record: IRecord): Promise<void> {
    this._detail.announce(record);
    const place = placeOf(record);
    this._wanted = place;
    try {
      const now = await this._api.whole(record);
      if (this._wanted !== place || this._isDisposed) {
        return;
      }
      if (now === null || now.whole === null) {
        this._detail.say(this._trans.__('This dead letter has gone: it was replayed or dropped.'));
      } else {
        this._detail.show(now, now.whole);
      }
    } catch (error) {
      if (this._wanted === place) {
        this._detail.say(reasonOf(error));
      }
    }
  }

  private async _replay(): Promise<void> {
    await replayLetters(this._topic, this._model, this._trans, conditionOf(this._selected));
  }

  private async _drop(): Promise<void> {
    const trans = this._trans;
    const note = h('input', { type: 'text', class: 'jp-mod-styled', maxlength: '1000' });
    const body = h('div', { class: css('replay') },
      h('p', {}, trans._n('%2 dead letter goes for good.', '%2 dead letters go for good.', this._number, number(this._number))),
      h('label', {}, trans.__('Why; the topic’s events keep it, and your name'), note)
    );
    const answer = await showDialog({
      title: trans.__('Drop dead letters of %1', this._topic),
      body: new Widget({ node: body }),
      buttons: [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.warnButton({ label: trans.__('Drop') })],
      defaultButton: 0
    });
    if (!answer.button.accept) {
      return;
    }
    const why = note.value.trim();
    if (why === '') {
      this._say(trans.__('Nothing was dropped: choose “Drop…” again, and write why.'), true);
      return;
    }
    try {
      await this._api.drop(this._selected, why);
      Notification.info(trans.__('Dropping dead letters of %1; see its events for the outcome', this._topic), {
        autoClose: 5_000
      });
    } catch (error) {
      this._say(reasonOf(error), true);
    }
  }

  private async _download(): Promise<void> {
    try {
      const letters = await this._api.file(this._selected, MOST_IN_FILE);
      const url = URL.createObjectURL(new Blob([JSON.stringify(letters, null, 1)], { type: 'application/json' }));
      h('a', { href: url, download: `${this._topic}-dead-letters.json` }).click();
      URL.revokeObjectURL(url);
      if (this._number > MOST_IN_FILE) {
        const all = `tabletopic letters ${this._topic} --output FILE`;
        this._say(this._trans.__('The file has the newest %1; `%2` writes all.', number(MOST_IN_FILE), all), false);
      }
    } catch (error) {
      this._say(reasonOf(error), true);
    }
  }

  private readonly _api: LettersApi;
  private readonly _list: RecordList;
  private readonly _detail: RecordDetail;
  private readonly _actions: readonly HTMLButtonElement[];
  private readonly _where = h('input', { type: 'text', spellcheck: 'false' });
  private readonly _groups = h('div', { class: css('letterGroups') });
  private readonly _status = h('span', { role: 'status' });
  /** The condition of what is listed, and how many match it. */
  private _selected = '';
  private _number = 0;
  private _count: number | null = null;
  private _wanted = '';
  private _turn = 0;
  private _isVisible = true;
  private _isDisposed = false;
}
