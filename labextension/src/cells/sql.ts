/** A cell that begins with `%%lake` is SQL: JupyterLab's own language for it, and a mark where an error is. */
import type { CodeEditor } from '@jupyterlab/codeeditor';
import { EditorExtensionRegistry } from '@jupyterlab/codemirror';
import type { IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import { StateEffect, StateField } from '@codemirror/state';
import type { EditorState, Extension } from '@codemirror/state';
import { Decoration, EditorView } from '@codemirror/view';
import type { DecorationSet } from '@codemirror/view';

const SQL = 'text/x-sql';
const BEGINS = /^\s*%%lake(?!\S)/;
/** A line of a cell in Python that is a query, also one whose result gets a name. */
export const LINE = /^[ \t]*(?:[A-Za-z_]\w*[ \t]*=[ \t]*)?%lake(?!\S)/m;
/** What the kernel writes below an error: where it is, the line, and marks below its word. */
const PLACE = /\bline (\d+), column (\d+) of the cell:\n.*\n[ \t]*(\^+)/;

export function isSql(source: string): boolean {
  return BEGINS.test(source);
}

/** Whether a cell is a query as a whole, or has a line that is one. */
export function isQuery(source: string): boolean {
  return isSql(source) || LINE.test(source);
}

/** Let editors of code cells switch to SQL and back as their first line changes. */
export function addSqlCells(registry: IEditorExtensionRegistry): void {
  registry.addExtension(
    Object.freeze({
      name: 'tabletopic:sql-cells',
      factory: (options: { model: CodeEditor.IModel }) =>
        (options.model as { type?: string }).type === 'code'
          ? EditorExtensionRegistry.createImmutableExtension(extensionOf(options.model))
          : null
    })
  );
}

/** Mark the place that an error's text names; without one, remove the mark. */
export function markError(view: EditorView, text: string | null): void {
  const place = text === null ? null : PLACE.exec(text);
  view.dispatch({ effects: setMark.of(place === null ? null : rangeOf(view.state, place)) });
}

interface IMarked {
  readonly from: number;
  readonly to: number;
}

function rangeOf(state: EditorState, place: RegExpExecArray): IMarked | null {
  // IPython drops empty lines in front of a cell's magic.
  const skipped = /^\s*/.exec(state.doc.toString())![0].split('\n').length - 1;
  const [row, column, marks] = [Number(place[1]) + skipped, Number(place[2]) - 1, place[3] ?? ''];
  if (row > state.doc.lines) {
    return null;
  }
  const line = state.doc.line(row);
  // Python counts an emoji once, an editor twice.
  const at = (characters: number) => line.from + [...line.text].slice(0, characters).join('').length;
  const [from, to] = [at(column), at(column + marks.length)];
  return from < to ? { from, to } : null;
}

const setMark = StateEffect.define<IMarked | null>();
const MARK = Decoration.mark({ class: 'jp-TableTopic-sqlError' });
const marked = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (marks, transaction) => {
    for (const effect of transaction.effects) {
      if (effect.is(setMark)) {
        return effect.value === null ? Decoration.none : Decoration.set(MARK.range(effect.value.from, effect.value.to));
      }
    }
    return transaction.docChanged ? Decoration.none : marks;
  },
  provide: field => EditorView.decorations.from(field)
});

const MAGIC = Decoration.line({ class: 'jp-TableTopic-magic' });
const firstLine = EditorView.decorations.compute(['doc'], ({ doc }) => {
  const begin = /^\s*/.exec(doc.sliceString(0, 100))![0].length;
  return isSql(doc.sliceString(0, begin + 10)) ? Decoration.set(MAGIC.range(doc.lineAt(begin).from)) : Decoration.none;
});

function extensionOf(model: CodeEditor.IModel): Extension {
  const language = languages.get(model) ?? new Language(model);
  languages.set(model, language);
  language.follow();
  return [
    firstLine,
    marked,
    EditorView.updateListener.of(update => {
      if (update.docChanged) {
        language.follow();
      }
    })
  ];
}

/** The language of a cell; the notebook sets it, too, with each kernel. */
class Language {
  constructor(private readonly _model: CodeEditor.IModel) {
    this._other = _model.mimeType;
    _model.mimeTypeChanged.connect(() => {
      if (_model.mimeType !== SQL) {
        this._other = _model.mimeType;
        this.follow();
      }
    });
  }

  follow(): void {
    const wanted = isSql(this._model.sharedModel.getSource()) ? SQL : this._other;
    if (this._model.mimeType !== wanted) {
      this._model.mimeType = wanted;
    }
  }

  private _other: string;
}

const languages = new WeakMap<CodeEditor.IModel, Language>();
