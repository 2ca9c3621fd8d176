/** The sidebar's message while there is nothing to list: what is missing, and what to do first. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IOverview } from './api';
import { css, h, setBusy, setShown, setText, setWords, textButton } from './dom';
import type { IView } from './dom';

/** The overview, and whether an action that concerns all of it is in progress. */
export interface IEmptyData {
  readonly overview: IOverview | null;
  readonly pending: boolean;
}

/** The available actions. */
export interface IEmptyActions {
  startStack(): void;
  sendSample(): void;
  openServers(): void;
}

interface IWords {
  readonly title: string;
  readonly text: string;
  readonly detail: string;
  readonly button: 'stack' | 'sample' | null;
  readonly working: boolean;
}

/** Hidden while there are topics. */
export class EmptyState implements IView<IEmptyData> {
  constructor(
    actions: IEmptyActions,
    private readonly _trans: TranslationBundle
  ) {
    this._stack = textButton(_trans.__('Start the local stack'), actions.startStack, true);
    this._sample = textButton(_trans.__('Send sample events'), actions.sendSample, true);
    this._servers = textButton(_trans.__('Use your own servers…'), actions.openServers);
    this.node = h(
      'div',
      { class: css('empty') },
      this._title,
      this._text,
      this._bar,
      this._detail,
      this._stack,
      this._sample,
      this._servers
    );
  }

  readonly node: HTMLElement;

  update(data: IEmptyData): void {
    const words = this._words(data.overview);
    setShown(this.node, words !== null);
    if (words === null) {
      return;
    }
    setText(this._title, words.title);
    setText(this._text, words.text);
    setWords(this._detail, words.detail);
    setShown(this._detail, words.detail !== '');
    setShown(this._bar, words.working);
    setShown(this._stack, words.button === 'stack');
    setShown(this._sample, words.button === 'sample');
    setShown(this._servers, ['none', 'unreachable'].includes(data.overview?.servers.state ?? ''));
    setBusy(this._stack, data.pending);
    setBusy(this._sample, data.pending);
  }

  private _words(overview: IOverview | null): IWords | null {
    const nothing = { text: '', detail: '', button: null, working: false };
    if (overview === null) {
      return { ...nothing, title: this._trans.__('Connecting…'), working: true };
    }
    const { state, detail, missing, bootstrap_servers } = overview.servers;
    if (overview.topics.length > 0 && (state === 'starting' || state === 'unreachable')) {
      return null; // the list stays, and the header says what does not respond
    }
    switch (state) {
      case 'none':
        return {
          ...nothing,
          title: this._trans.__('No servers yet'),
          text: this._trans.__('Table topics need Kafka, a schema registry and a catalog.'),
          detail,
          button: 'stack'
        };
      case 'starting':
        return {
          ...nothing,
          title: this._trans.__('Starting the servers'),
          text: this._trans.__('Kafka, a schema registry and a catalog on this machine.'),
          detail,
          working: true
        };
      case 'stopping':
        return {
          ...nothing,
          title: this._trans.__('Stopping the servers'),
          text: this._trans.__('Topics and tables stay on disk.'),
          detail,
          working: true
        };
      case 'unreachable':
        return {
          ...nothing,
          title: this._trans.__('The servers do not respond'),
          text: missing.length > 0 ? '' : this._trans.__('Retrying automatically.'),
          detail: missing.length > 0 ? '' : detail
        };
      case 'ready':
        return overview.topics.length > 0
          ? null
          : {
              ...nothing,
              title: this._trans.__('No topics yet'),
              text: this._trans.__(
                'Kafka has no topics. Send clicks of a fictional shop to the topic “clicks”, ' +
                  'or point your own producer at %1.',
                bootstrap_servers
              ),
              button: 'sample'
            };
    }
  }

  /** Takes the focus when the button below it disappears. */
  private readonly _title = h('h3', { tabindex: '-1' });
  private readonly _text = h('p');
  private readonly _detail = h('p', { class: css('step') });
  private readonly _bar = h('div', { class: css('bar'), 'aria-hidden': 'true' });
  private readonly _stack: HTMLButtonElement;
  private readonly _sample: HTMLButtonElement;
  private readonly _servers: HTMLButtonElement;
}
