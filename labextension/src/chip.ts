/** A state in one word, with a sign whose shape and colour mean the same. */
import { css, h, setAttribute, setShown, setText } from './dom';
import type { IView } from './dom';
import type { IWord } from './words';

/** Without a word, nothing is shown. */
export class Chip implements IView<IWord | null> {
  readonly node = h('span', { class: css('chip') });

  constructor() {
    this.node.append(this._sign, this._text);
  }

  update(word: IWord | null): void {
    setShown(this.node, word !== null);
    if (word !== null) {
      setAttribute(this._sign, 'data-tone', word.tone);
      setText(this._text, word.text);
    }
  }

  private readonly _sign = h('span', { class: css('sign'), 'aria-hidden': 'true' });
  private readonly _text = h('span');
}
