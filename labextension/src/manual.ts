/** The manual in a tab: the pages that come with the package. Links between them stay in the tab. */
import { MimeModel } from '@jupyterlab/rendermime';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { reasonOf } from './api';
import type { TopicApi } from './api';
import { css, h, setBusy, textButton } from './dom';
import { helpIcon } from './icons';

/** The first page, which lists the others. */
const INDEX = 'README';

/** A page, and the anchor of a section or a word of its heading. */
interface IPlace {
  readonly page: string;
  readonly word: string;
}

/** One page at a time, rendered as JupyterLab renders Markdown. */
export class Manual extends Widget {
  constructor(
    private readonly _api: TopicApi,
    private readonly _rendermime: IRenderMimeRegistry,
    trans: TranslationBundle
  ) {
    super();
    this.id = 'tabletopic-manual';
    this.title.label = trans.__('Table Topic manual');
    this.title.icon = helpIcon;
    this.title.closable = true;
    this.addClass('jp-TableTopic');
    this.addClass(css('manual'));
    this._back = textButton(trans.__('Back'), () => this._turnBack());
    const contents = textButton(trans.__('Contents'), () => this.turnTo());
    this._text.setAttribute('aria-label', trans.__('Page'));
    this.node.append(h('nav', { 'aria-label': trans.__('Manual') }, this._back, contents), this._text);
    this._text.addEventListener('click', event => this._follow(event));
  }

  /** Show a page, from the section with this anchor or with this word in its heading. */
  turnTo(page = INDEX, word = ''): void {
    this._places.push({ page, word });
    void this._draw();
  }

  private _turnBack(): void {
    if (this._places.length > 1) {
      this._places.pop();
      void this._draw();
    }
  }

  private async _draw(): Promise<void> {
    const place = this._places.at(-1);
    if (place === undefined) {
      return;
    }
    setBusy(this._back, this._places.length === 1);
    let text: string;
    try {
      ({ text } = await this._api.page(place.page));
    } catch (error) {
      text = reasonOf(error);
    }
    const renderer = this._rendermime.createRenderer('text/markdown');
    await renderer.renderModel(new MimeModel({ data: { 'text/markdown': text } }));
    if (place === this._places.at(-1) && !this.isDisposed) {
      this._text.replaceChildren(renderer.node);
      const headings = [...this._text.querySelectorAll('h1, h2, h3, h4')];
      const at = slug(place.word);
      const heading =
        headings.find(one => slug(one.textContent) === at) ?? headings.find(one => at !== '' && slug(one.textContent).includes(at));
      if (heading === undefined) {
        this._text.scrollTop = 0;
      } else {
        heading.scrollIntoView();
      }
    }
  }

  /** Links to other pages are relative; names of pages are unique. */
  private _follow(event: MouseEvent): void {
    const href = event.target instanceof Element ? event.target.closest('a')?.getAttribute('href') : null;
    if (href === null || href === undefined || /^\w+:/.test(href)) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const [path, anchor] = href.split('#');
    const page = path?.split('/').at(-1)?.replace(/\.md$/, '') || this._places.at(-1)?.page;
    this.turnTo(page, decodeURIComponent(anchor ?? ''));
  }

  private readonly _back: HTMLButtonElement;
  private readonly _text = h('div', { class: css('manualText'), role: 'region', tabindex: '0' });
  private readonly _places: IPlace[] = [];
}

/** A heading's anchor, as GitHub makes it. */
function slug(heading: string | null): string {
  return (heading ?? '')
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .trim()
    .replaceAll(' ', '-');
}
