/** The renderer of results: it draws the first page of any notebook, and loads the grid only then. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { css } from '../dom';
import type { ResultView } from './view';
import { MIME } from './protocol';
import type { IResult } from './protocol';

/** What a grid needs of JupyterLab. */
export interface ISite {
  readonly app: JupyterFrontEnd;
  readonly rendermime: IRenderMimeRegistry;
  readonly trans: TranslationBundle;
}

/** Let outputs be grids, in notebooks that are not trusted, too: all of it is set as text. */
export function addResults(site: ISite): void {
  site.rendermime.addFactory(
    { safe: true, mimeTypes: [MIME], createRenderer: () => new ResultRenderer(site) },
    40 // before text/html, which is beside it for other programs
  );
}

class ResultRenderer extends Widget implements IRenderMime.IRenderer {
  constructor(private readonly _site: ISite) {
    super();
    this.addClass(css('result'));
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { ResultView } = await import(/* webpackChunkName: "grid" */ './view');
    if (!this.isDisposed) {
      this._view?.dispose();
      this._view = new ResultView(model.data[MIME] as unknown as IResult, this._site);
      this.node.replaceChildren(this._view.node);
    }
  }

  override dispose(): void {
    this._view?.dispose();
    super.dispose();
  }

  private _view: ResultView | null = null;
}
