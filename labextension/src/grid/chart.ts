/** A chart of two columns, drawn by JupyterLab's own Vega-Lite, and its code as a cell. */
import type { IRenderMime } from '@jupyterlab/rendermime';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { css, h, setShown, textButton } from '../dom';
import { pageOf } from './line';
import type { IChart } from './protocol';
import type { ResultView } from './view';

const VEGA = 'application/vnd.vegalite.v5+json';

interface INotebookPage {
  readonly content?: { activeCellIndex: number; readonly widgets: readonly Widget[] };
}

export class ChartView {
  constructor(private readonly _view: ResultView) {
    const { trans } = _view.site;
    this._x.setAttribute('aria-label', trans.__('Horizontal'));
    this._y.setAttribute('aria-label', trans.__('Vertical'));
    const options = _view.result.columns.map(({ name }, index) => [String(index), name] as const);
    this._x.append(...options.map(([value, name]) => h('option', { value }, name)));
    this._y.append(h('option', { value: '' }, trans.__('count of rows')));
    this._y.append(
      ...options
        .filter((_, index) => _view.result.columns[index]?.number)
        .map(([value, name]) => h('option', { value }, name))
    );
    for (const select of [this._x, this._y]) {
      select.addEventListener('change', () => void this._draw(this._chosen()));
    }
    this._toCode = textButton(trans.__('Insert as code'), () => void this._insert());
    const close = textButton(trans.__('Close'), () => setShown(this.node, false));
    this.node.append(
      h('div', { class: css('gridTools') },
        h('label', {}, 'x ', this._x), h('label', {}, 'y ', this._y), this._toCode, close
      ),
      this._place
    );
    this.node.setAttribute('aria-label', trans.__('Chart'));
    setShown(this.node, false);
  }

  readonly node = h('div', { class: css('gridChart'), role: 'group' });

  /** The chart that the columns suggest. */
  async open(): Promise<void> {
    await this._draw({});
    if (!this.node.hidden) {
      this._x.focus();
    }
  }

  /** Not by `Widget.detach`, which fails once the output around the chart is gone. */
  dispose(): void {
    if (this._drawn !== null) {
      MessageLoop.sendMessage(this._drawn, Widget.Msg.BeforeDetach);
      this._drawn.node.remove();
      MessageLoop.sendMessage(this._drawn, Widget.Msg.AfterDetach);
      this._drawn.dispose();
      this._drawn = null;
    }
  }

  private _chosen(): { x: number; y: number | null } {
    return { x: Number(this._x.value), y: this._y.value === '' ? null : Number(this._y.value) };
  }

  private async _draw(axes: { x?: number; y?: number | null }): Promise<void> {
    const chart = await this._view.ask<IChart>('chart', axes);
    if (chart === null) {
      return;
    }
    this._code = chart.code;
    this._x.value = String(chart.x);
    this._y.value = chart.y === null ? '' : String(chart.y);
    setShown(this._toCode, chart.code !== null);
    const { rendermime } = this._view.site;
    const renderer = rendermime.createRenderer(VEGA);
    this.dispose();
    this._drawn = renderer;
    MessageLoop.sendMessage(renderer, Widget.Msg.BeforeAttach);
    this._place.replaceChildren(renderer.node);
    MessageLoop.sendMessage(renderer, Widget.Msg.AfterAttach);
    setShown(this.node, true);
    const data = { [VEGA]: chart.spec as unknown as object };
    await renderer.renderModel(rendermime.createModel({ data: data as never, trusted: true }));
    renderer.node.querySelector('summary')?.setAttribute('aria-label', this._view.site.trans.__('Save the chart'));
    this.node.scrollIntoView({ block: 'nearest' });
  }

  /** Below the cell with this output, which becomes the active one. */
  private async _insert(): Promise<void> {
    const { app } = this._view.site;
    const content = (pageOf(app, this.node) as unknown as INotebookPage | null)?.content;
    const index = content?.widgets?.findIndex(cell => cell.node.contains(this.node)) ?? -1;
    if (content === undefined || index < 0 || this._code === null) {
      return this._view.tell(this._view.site.trans.__('A cell can be inserted in a notebook only.'));
    }
    content.activeCellIndex = index;
    await app.commands.execute('notebook:insert-cell-below');
    await app.commands.execute('notebook:replace-selection', { text: this._code });
  }

  private _code: string | null = null;
  private _drawn: IRenderMime.IRenderer | null = null;
  private readonly _x = h('select');
  private readonly _y = h('select');
  private readonly _toCode: HTMLButtonElement;
  private readonly _place = h('div', { class: css('gridDrawn') });
}
