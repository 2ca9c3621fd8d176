/** Small helpers to build and change DOM. Text is always set as text, so data cannot become markup. */
import type { LabIcon } from '@jupyterlab/ui-components';

type Child = Node | string | null;

/** Attributes of an element; null and false omit one, true sets it empty. */
export type Attributes = Readonly<Record<string, string | boolean | null>>;

/** Class of the extension's elements. */
export function css(...names: string[]): string {
  return names.map(name => `jp-TableTopic-${name}`).join(' ');
}

/** A new element. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  for (const child of children) {
    if (child !== null) {
      element.append(child);
    }
  }
  return element;
}

/** Set text only if it differs: a poll without news costs nothing. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/** Set text in which `…` marks code to type. */
export function setWords(element: Element, text: string): void {
  if (element.textContent !== text.replaceAll('`', '').replace(PAGE, '$1')) {
    element.replaceChildren(...words(text));
  }
}

/** A page of the manual that a message names, in quotes. */
const PAGE = /“(Manual: [^”]+)”/g;

/** Text with `…` as code, and pages of the manual as links. */
export function words(text: string): (Node | string)[] {
  return text
    .split('`')
    .flatMap((part, index) =>
      index % 2 === 1 ? [h('code', {}, part)] : part.split(PAGE).map((piece, at) => (at % 2 === 1 ? pageLink(piece) : piece))
    );
}

function pageLink(text: string): HTMLElement {
  return h('a', { href: '#', 'data-tabletopic-page': text.slice('Manual: '.length) }, text);
}

/** Open a page when its link is clicked, wherever it is. */
export function followPageLinks(open: (page: string) => void): void {
  document.body.addEventListener('click', event => {
    const link = event.target instanceof Element ? event.target.closest('[data-tabletopic-page]') : null;
    if (link !== null) {
      event.preventDefault();
      open(link.getAttribute('data-tabletopic-page') ?? '');
    }
  });
}

/** Set an attribute if it differs, or with null remove it. */
export function setAttribute(element: Element, name: string, value: string | null): void {
  if (value === null) {
    element.removeAttribute(name);
  } else if (element.getAttribute(name) !== value) {
    element.setAttribute(name, value);
  }
}

/** Show or hide. */
export function setShown(element: HTMLElement, shown: boolean): void {
  if (element.hidden === shown) {
    element.hidden = !shown;
  }
}

/** A button with text. */
export function textButton(label: string, run: () => void, accept = false): HTMLButtonElement {
  const classes = `jp-mod-styled ${accept ? 'jp-mod-accept ' : ''}${css('button')}`;
  const button = h('button', { type: 'button', class: classes }, label);
  button.addEventListener('click', () => {
    if (button.getAttribute('aria-disabled') === null) {
      run();
    }
  });
  return button;
}

/** Whether a button waits for its action. It keeps the focus, which a disabled one would lose. */
export function setBusy(button: HTMLButtonElement, busy: boolean): void {
  setAttribute(button, 'aria-disabled', busy ? 'true' : null);
}

/** A button with only an icon; `label` is its name for screen readers and its tooltip. */
export function iconButton(icon: LabIcon, label: string, run: (button: HTMLButtonElement) => void): HTMLButtonElement {
  const button = h('button', { type: 'button', class: css('iconButton'), 'aria-label': label, title: label });
  button.append(iconElement(icon));
  button.addEventListener('click', () => run(button));
  return button;
}

/** An icon as decoration: screen readers skip it. */
export function iconElement(icon: LabIcon): HTMLElement {
  const element = icon.element({ tag: 'span', className: css('icon') });
  element.setAttribute('aria-hidden', 'true');
  return element;
}

/** Something with an element that accepts new data. */
export interface IView<T> {
  readonly node: HTMLElement;
  update(data: T): void;
}

/** Views kept by key: remaining ones are updated in place, so focus, folds and scrolling remain too. */
export class KeyedViews<T> {
  constructor(
    private readonly _key: (data: T) => string,
    private readonly _make: (data: T) => IView<T>
  ) {}

  /** Update the views to exactly these; returns their elements, in the data's order. */
  update(all: readonly T[]): HTMLElement[] {
    const kept = new Map<string, IView<T>>();
    for (const data of all) {
      const key = this._key(data);
      const view = this._views.get(key) ?? this._make(data);
      view.update(data);
      kept.set(key, view);
    }
    this._views = kept;
    return [...kept.values()].map(view => view.node);
  }

  private _views = new Map<string, IView<T>>();
}

/** Make these an element's children, moving only those out of place. */
export function arrange(parent: HTMLElement, nodes: readonly HTMLElement[]): void {
  const wanted = new Set<Element>(nodes);
  for (const child of [...parent.children]) {
    if (!wanted.has(child)) {
      child.remove();
    }
  }
  let next = parent.firstElementChild;
  for (const node of nodes) {
    if (node === next) {
      next = next.nextElementSibling;
    } else {
      parent.insertBefore(node, next);
    }
  }
}
