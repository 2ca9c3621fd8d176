/** Records of a topic: searched for, gone on from there, or followed as they come. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { reasonOf } from '../api';
import { css, h, setAttribute, setBusy, setShown, setText, setWords, textButton } from '../dom';
import { keepingFocus } from '../focus';
import type { IPageView } from '../lazypage';
import { number } from '../words';
import { RecordDetail } from './detail';
import { SearchForm } from './form';
import { RecordList } from './list';
import { placeOf } from './protocol';
import type { IRecord, IRecords, Query, Search } from './protocol';

const PAGE = 50;
const MOST_FOLLOWED = 500;
const FOLLOW_EVERY_MS = 1_000;

export class RecordsView implements IPageView {
  constructor(
    topic: string,
    private readonly _search: Search,
    private readonly _trans: TranslationBundle
  ) {
    this._form = new SearchForm(_trans, () => this._submitted());
    this._list = new RecordList(_trans, record => void this._look(record));
    this._detail = new RecordDetail(_trans, () => this._list.focusSelected());
    this._goOn = textButton(_trans.__('Continue'), () => void this._continue());
    this._follow = textButton(_trans.__('Follow'), () => this._setFollowing(!this._isFollowing));
    this.node.append(
      h('h2', {}, _trans.__('Records of %1', topic)),
      this._form.node,
      h('div', { class: css('recordsBar') }, this._follow, this._status, this._goOn),
      h('div', { class: css('recordsSplit') }, this._list.node, this._detail.node)
    );
    this._offer();
    void this._begin();
  }

  readonly node = h('div', { class: `jp-TableTopic ${css('records')}` });

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    window.clearTimeout(this._timer);
  }

  setVisible(visible: boolean): void {
    this._isVisible = visible;
    this._plan();
  }

  focus(): void {
    if (!this.node.contains(document.activeElement)) {
      this._form.focus();
    }
  }

  private _submitted(): void {
    if (this._isFollowing && this._form.place().start !== 'newest') {
      this._setFollowing(false);
    }
    this._detail.close();
    void this._begin();
  }

  /** A new search: what was listed goes. */
  private async _begin(): Promise<void> {
    this._filters = this._form.filters();
    this._tail = '';
    const answer = await this._ask({ ...this._filters, ...this._form.place(), limit: String(PAGE) });
    if (answer !== null) {
      keepingFocus(this.node, () => this._list.replace(answer.records));
      this._looked = answer.looked;
      this._offsets = answer.offsets;
      this._ended(answer);
    }
    this._plan();
  }

  private async _continue(): Promise<void> {
    const rest = { ...this._filters, ...this._next };
    const shown = this._list.size;
    const answer = await this._ask({ ...rest, limit: String(PAGE) });
    if (answer !== null) {
      this._list.append(answer.records);
      this._looked += answer.looked;
      this._ended(answer);
      if (answer.records.length > 0) {
        this._list.focusRow(shown);
      } else if (answer.go_on === null) {
        this._follow.focus();
      }
    }
  }

  private _newest(): string {
    const { size } = this._list;
    return this._trans._n('the newest record', 'the newest %2 records', size, number(size));
  }

  private _ended(answer: IRecords): void {
    this._next = answer.go_on;
    this._tail = answer.tail;
    this._offer();
    const looked = [number(this._looked), number(this._offsets)] as const;
    const found = this._trans.__('%1 found', number(this._list.size));
    const text =
      answer.go_on === null
        ? this._trans._n('%2: looked at the only record.', '%2: looked at all %3 records.', this._offsets, found, looked[1])
        : this._trans.__('%1: looked at %2 of %3 records.', found, ...looked);
    this._say([text, ...answer.notes.map(note => `${note}.`)].join(' '), false);
  }

  /** The answer; null if it failed, or a later search began. */
  private async _ask(query: Query): Promise<IRecords | null> {
    const turn = ++this._turn;
    setBusy(this._goOn, true);
    setAttribute(this.node, 'aria-busy', 'true');
    if (!this._isFollowing) {
      this._say(this._trans.__('Looking…'), false);
    }
    try {
      const answer = await this._search(query);
      return turn === this._turn && !this._isDisposed ? answer : null;
    } catch (error) {
      if (turn === this._turn) {
        this._say(reasonOf(error), true);
      }
      return null;
    } finally {
      if (turn === this._turn) {
        setBusy(this._goOn, false);
        setAttribute(this.node, 'aria-busy', null);
      }
    }
  }

  private _say(text: string, failed: boolean): void {
    setWords(this._status, text);
    setAttribute(this._status, 'data-failed', failed ? 'true' : null);
  }

  private _setFollowing(following: boolean): void {
    this._isFollowing = following;
    this._offer();
    if (following) {
      this._form.readNewest();
      void this._begin();
    } else {
      window.clearTimeout(this._timer);
      this._turn++; // what is on its way comes too late
      setBusy(this._goOn, false);
      setAttribute(this.node, 'aria-busy', null);
      this._say(this._trans.__('Paused: %1.', this._newest()), false);
    }
  }

  /** The buttons that apply. */
  private _offer(): void {
    setText(this._follow, this._isFollowing ? this._trans.__('Pause') : this._trans.__('Follow'));
    this._follow.title = this._isFollowing
      ? this._trans.__('Stop showing records as they come')
      : this._trans.__('Show records as they come');
    setShown(this._goOn, this._next !== null && !this._isFollowing);
  }

  /** Ask again in a while, if somebody looks. */
  private _plan(): void {
    window.clearTimeout(this._timer);
    if (this._isFollowing && this._isVisible && !this._isDisposed) {
      this._timer = window.setTimeout(() => void this._poll(), FOLLOW_EVERY_MS);
    }
  }

  private async _poll(): Promise<void> {
    if (!document.hidden) {
      if (this._tail === '') {
        await this._begin();
        return;
      }
      const answer = await this._ask({ ...this._filters, start: this._tail, limit: String(PAGE) });
      if (answer?.cut_by === 'limit') {
        await this._begin(); // more than anybody reads: begin again at the newest
        return;
      }
      if (answer !== null) {
        this._tail = answer.tail;
        this._looked += answer.looked;
        this._offsets += answer.looked;
        keepingFocus(this.node, () => this._list.prepend([...answer.records].reverse(), MOST_FOLLOWED));
        if (this._list.size >= MOST_FOLLOWED) {
          this._next = null; // the oldest are gone: what follows them would leave a gap
        }
        this._say(this._trans.__('Following: %1.', this._newest()), false);
      }
    }
    this._plan();
  }

  /** Fetch a record whole, and what became of it by now. */
  private async _look(record: IRecord): Promise<void> {
    this._detail.announce(record);
    const place = placeOf(record);
    this._wanted = place;
    const query = { start: place, partition: String(record.partition), limit: '1', raw: 'true' };
    try {
      const { records } = await this._search(query);
      if (this._wanted !== place || this._isDisposed) {
        return;
      }
      const [now] = records;
      if (now === undefined || now.whole === null || placeOf(now) !== place) {
        this._detail.say(this._trans.__('Kafka no longer has this record.'));
        return;
      }
      this._detail.show(now, now.whole);
      this._list.became(now);
    } catch (error) {
      if (this._wanted === place) {
        this._detail.say(reasonOf(error));
      }
    }
  }

  private readonly _form: SearchForm;
  private readonly _list: RecordList;
  private readonly _detail: RecordDetail;
  private readonly _goOn: HTMLButtonElement;
  private readonly _follow: HTMLButtonElement;
  private readonly _status = h('span', { role: 'status' });
  private _filters: Query = {};
  private _next: Query | null = null;
  private _tail = '';
  private _wanted = '';
  private _looked = 0;
  private _offsets = 0;
  private _turn = 0;
  private _timer = 0;
  private _isFollowing = false;
  private _isVisible = true;
  private _isDisposed = false;
}
