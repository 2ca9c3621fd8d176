/** A switch: on, off, or on its way. */
import { css, h, setAttribute } from './dom';
import type { IView } from './dom';

/** The switch's position; while busy it does not react. */
export interface ISwitchData {
  readonly on: boolean;
  readonly busy: boolean;
}

/** A button with the role of a switch: space and enter work as announced by screen readers. */
export class Switch implements IView<ISwitchData> {
  constructor(label: string, toggle: () => void) {
    this.node = h(
      'button',
      { type: 'button', role: 'switch', 'aria-checked': 'false', 'aria-label': label, title: label, class: css('switch') },
      h('span', { class: css('knob') })
    );
    this.node.addEventListener('click', () => {
      if (this.node.getAttribute('aria-disabled') !== 'true') {
        toggle();
      }
    });
  }

  readonly node: HTMLButtonElement;

  update({ on, busy }: ISwitchData): void {
    setAttribute(this.node, 'aria-checked', String(on));
    // Not "disabled": that would take the focus from the user who has just pressed it.
    setAttribute(this.node, 'aria-disabled', busy ? 'true' : null);
  }
}
