/** A page of the main area whose code is loaded when it is first seen. */
import type { LabIcon } from '@jupyterlab/ui-components';
import type { IDisposable } from '@lumino/disposable';
import { Widget } from '@lumino/widgets';
import { css } from './dom';

/** What such a page shows. */
export interface IPageView extends IDisposable {
  readonly node: HTMLElement;
  /** The page came into sight, or left it. */
  setVisible(visible: boolean): void;
  /** The tab was chosen. */
  focus(): void;
}

/** A view that is loaded when it is first seen, and by hand. */
export abstract class LoadedView implements IPageView {
  abstract readonly node: HTMLElement;

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
  }

  setVisible(visible: boolean): void {
    if (visible && !this._isLoaded) {
      this._isLoaded = true;
      void this.load();
    }
  }

  abstract focus(): void;

  protected abstract load(): Promise<void>;

  protected _isLoaded = false;
  private _isDisposed = false;
}

export interface IPageTitle {
  readonly label: string;
  readonly caption: string;
  readonly icon: LabIcon;
}

export class LazyPage extends Widget {
  constructor(
    title: IPageTitle,
    private readonly _load: () => Promise<IPageView>,
    /** What the page is about; null if there is one page of its kind. */
    readonly topic: string | null = null
  ) {
    super();
    this.addClass(css('page'));
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', title.label);
    this.title.label = title.label;
    this.title.caption = title.caption;
    this.title.icon = title.icon;
    this.title.closable = true;
  }

  override dispose(): void {
    this._view?.dispose();
    super.dispose();
  }

  protected override onAfterShow(): void {
    void this._show();
  }

  protected override onAfterAttach(): void {
    void this._show();
  }

  protected override onAfterHide(): void {
    this._view?.setVisible(false);
  }

  protected override onActivateRequest(): void {
    void this._show().then(() => this._view?.focus());
  }

  private async _show(): Promise<void> {
    if (!this.isVisible) {
      return; // a tab that the layout brought back, behind another
    }
    this._loading ??= this._load();
    const view = await this._loading;
    if (!this.isDisposed && this._view === null) {
      this._view = view;
      this.node.append(view.node);
    }
    view.setVisible(this.isVisible);
  }

  private _loading: Promise<IPageView> | null = null;
  private _view: IPageView | null = null;
}
