/** A line that begins with `%lake` is SQL: JupyterLab's own colours for it, within the language of its cell. */
import { EditorExtensionRegistry, jupyterHighlightStyle } from '@jupyterlab/codemirror';
import type { IEditorExtensionRegistry, IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { Prec, RangeSetBuilder, StateEffect, StateField } from '@codemirror/state';
import type { EditorState, Extension } from '@codemirror/state';
import { Decoration, EditorView, ViewPlugin } from '@codemirror/view';
import type { DecorationSet } from '@codemirror/view';
import { highlightTree } from '@lezer/highlight';
import { LINE, isSql } from './sql';

/** The magic, its options, and the variable in front of `<<`: what follows is SQL. */
const HEAD = new RegExp(
  `${LINE.source}(?:\\s+(?:--(?:live|history)|-h|--help|(?:-e|--\\w+)(?:\\s+|=)(?:'[^']*'|"[^"]*"|\\S+)))*(?:\\s*[A-Za-z_]\\w*\\s*<<)?`
);

type Parser = { parse(text: string): Parameters<typeof highlightTree>[0] };

/** Let editors of code cells colour such lines; the language is loaded with the first of them. */
export function addSqlLines(registry: IEditorExtensionRegistry, languages: IEditorLanguageRegistry): void {
  let parser: Promise<Parser | null> | null = null;
  const load = () => {
    parser ??= languages.getLanguage('sql').then(found => found?.support?.language.parser ?? null);
    return parser;
  };
  registry.addExtension(
    Object.freeze({
      name: 'tabletopic:sql-lines',
      factory: (options: { model: object }) =>
        (options.model as { type?: string }).type === 'code'
          ? EditorExtensionRegistry.createImmutableExtension(extensionOf(load))
          : null
    })
  );
}

const setParser = StateEffect.define<Parser>();

interface IColoured {
  readonly parser: Parser | null;
  readonly marks: DecorationSet;
}

const coloured = StateField.define<IColoured>({
  create: () => ({ parser: null, marks: Decoration.none }),
  update: (before, transaction) => {
    const loaded = transaction.effects.find(effect => effect.is(setParser));
    const parser = loaded === undefined ? before.parser : (loaded.value as Parser);
    if (parser === null || (parser === before.parser && !transaction.docChanged)) {
      return before;
    }
    return { parser, marks: marksOf(transaction.state, parser) };
  },
  // The innermost colour counts, and that is the one of the highest precedence.
  provide: field => Prec.highest(EditorView.decorations.from(field, ({ marks }) => marks))
});

function extensionOf(load: () => Promise<Parser | null>): Extension {
  const loading = ViewPlugin.define(view => {
    let asked = false;
    const look = () => {
      if (!asked && LINE.test(view.state.doc.toString())) {
        asked = true;
        void load().then(parser => parser !== null && view.dispatch({ effects: setParser.of(parser) }));
      }
    };
    look();
    return { update: ({ docChanged }) => docChanged && look() };
  });
  return [coloured, loading];
}

function marksOf(state: EditorState, parser: Parser): DecorationSet {
  const marks = new RangeSetBuilder<Decoration>();
  const text = state.doc.toString();
  if (LINE.test(text) && !isSql(text)) {
    for (let at = 1; at <= state.doc.lines; at++) {
      const line = state.doc.line(at);
      const begin = HEAD.exec(line.text)?.[0].length;
      if (begin !== undefined) {
        highlightTree(parser.parse(line.text.slice(begin)), jupyterHighlightStyle, (from, to, name) =>
          marks.add(line.from + begin + from, line.from + begin + to, Decoration.mark({ class: name }))
        );
      }
    }
  }
  return marks.finish();
}
