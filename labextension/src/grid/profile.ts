/** Below the headers: what is in each column, asked when its header comes in sight. */
import { css, h } from '../dom';
import { cellText } from './protocol';
import type { IProfile } from './protocol';
import type { ResultView } from './view';

const BAR_WIDTH = 5;
const HEIGHT = 24;

export class ProfileView {
  constructor(
    private readonly _view: ResultView,
    root: HTMLElement
  ) {
    this._observer = new IntersectionObserver(entries => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting) {
          this._observer.unobserve(target);
          void this._fill(target as HTMLElement);
        }
      }
    }, { root });
  }

  /** Show or hide the profiles; returns whether they are shown. */
  toggle(): boolean {
    return (this._isOn = !this._isOn);
  }

  /** Other rows are selected. */
  forget(): void {
    this._known.clear();
  }

  dispose(): void {
    this._observer.disconnect();
  }

  draw(column: number, place: HTMLElement): void {
    if (this._isOn) {
      const part = h('div', { class: css('gridProfile'), 'data-profile': String(column) }, '…');
      place.append(part);
    }
  }

  /** After the headers are drawn. */
  watch(): void {
    this._observer.disconnect();
    for (const part of this._view.node.querySelectorAll('[data-profile]')) {
      this._observer.observe(part);
    }
  }

  private async _fill(place: HTMLElement): Promise<void> {
    const column = Number(place.dataset.profile);
    let asked = this._known.get(column);
    if (asked === undefined) {
      asked = this._view.ask<IProfile>('profile', { column });
      this._known.set(column, asked);
    }
    const profile = await asked;
    if (profile === null) {
      this._known.delete(column);
      place.replaceChildren();
    } else {
      place.replaceChildren(...this._parts(profile));
    }
  }

  private _parts(profile: IProfile): HTMLElement[] {
    const trans = this._view.site.trans;
    const number = (value: number) => value.toLocaleString('en');
    const distinct = `${profile.exact ? '' : '≈ '}${number(profile.distinct)}`;
    const parts = [
      h('div', {}, trans.__('%1 null', number(profile.nulls))),
      h('div', {}, trans.__('%1 distinct', distinct))
    ];
    if (profile.bins !== undefined && profile.bins.length > 0) {
      parts.push(bars(profile.bins, trans.__('Distribution, in %1 steps', profile.bins.length)));
    }
    if (profile.min !== null) {
      const ends = `${cellText(profile.min)} … ${cellText(profile.max)}`;
      parts.push(h('div', { class: css('gridEnds'), title: ends }, ends));
    }
    for (const [value, count] of profile.top ?? []) {
      const text = cellText(value);
      parts.push(h('div', { class: css('gridEnds'), title: text }, `${number(Number(count))} × ${text}`));
    }
    return parts;
  }

  private _isOn = false;
  private readonly _known = new Map<number, Promise<IProfile | null>>();
  private readonly _observer: IntersectionObserver;
}

/** Counts as bars, whose text is for screen readers. */
export function bars(counts: readonly number[], label: string): HTMLDivElement {
  const most = Math.max(1, ...counts);
  const all = counts.map(count => {
    const bar = h('span', { title: count.toLocaleString('en') });
    bar.style.height = `${count === 0 ? 0 : Math.max(1, Math.round((HEIGHT * count) / most))}px`;
    bar.style.width = `${BAR_WIDTH}px`;
    return bar;
  });
  const text = `${label}: ${counts.join(', ')}`;
  return h('div', { class: css('gridBars'), role: 'img', 'aria-label': text }, ...all);
}
