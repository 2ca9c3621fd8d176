/** Cells of notebooks: SQL in them, and commands that insert and format it. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { IEditorExtensionRegistry, IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { TopicApi } from '../api';
import { CommandIDs } from '../commandids';
import { saveQuery } from '../queries';
import { copy } from '../telling';
import { formatCell, isFormattable } from './format';
import { addHints } from './hints';
import { addSqlLines } from './lines';
import { addSqlCells, isQuery, markError } from './sql';

export const cells: JupyterFrontEndPlugin<void> = {
  id: '@tabletopic/lab:cells',
  description: 'SQL in cells: highlighting, completion, errors where they are, and a format.',
  autoStart: true,
  requires: [INotebookTracker, IEditorExtensionRegistry, IEditorLanguageRegistry],
  optional: [ICompletionProviderManager, ISettingRegistry, ICommandPalette, ITranslator],
  activate
};

function activate(
  app: JupyterFrontEnd,
  tracker: INotebookTracker,
  extensions: IEditorExtensionRegistry,
  languages: IEditorLanguageRegistry,
  completions: ICompletionProviderManager | null,
  settings: ISettingRegistry | null,
  palette: ICommandPalette | null,
  translator: ITranslator | null
): void {
  const trans = (translator ?? nullTranslator).load('tabletopic');
  addSqlCells(extensions);
  addSqlLines(extensions, languages);
  if (completions !== null) {
    addHints(completions, tracker, settings);
  }
  NotebookActions.executionScheduled.connect((_, { cell }) => show(cell, null));
  NotebookActions.executed.connect((_, { cell, error }) => show(cell, error?.errorValue ?? null));
  app.commands.addCommand(CommandIDs.insertCell, {
    label: trans.__('Insert a Cell'),
    caption: trans.__('Below the active cell of the notebook; an empty one is used'),
    describedBy: {
      args: { type: 'object', properties: { source: { type: 'string', description: 'Text of the cell' } } }
    },
    execute: async args => {
      const source = String(args.source ?? '').trimEnd();
      const panel = tracker.currentWidget;
      if (panel === null) {
        copy(source, trans);
        return;
      }
      const notebook = panel.content;
      const active = notebook.activeCell;
      if (active === null || active.model.type !== 'code' || active.model.sharedModel.getSource().trim() !== '') {
        NotebookActions.insertBelow(notebook);
      }
      const cell = notebook.activeCell;
      cell?.model.sharedModel.setSource(source);
      app.shell.activateById(panel.id);
      // The one of insertBelow comes late, and takes the focus from an editor.
      await NotebookActions.focusActiveCell(notebook);
      notebook.mode = 'edit';
      cell?.editor?.focus();
    }
  });
  const cellOf = (args: ReadonlyPartialJSONObject) => {
    const node = args.menu === true ? app.contextMenuHitTest(node => node.classList.contains('jp-Cell')) : undefined;
    const cell = tracker.currentWidget?.content.widgets.find(widget => widget.node === node);
    return cell ?? tracker.activeCell;
  };
  app.commands.addCommand(CommandIDs.formatSql, {
    label: trans.__('Format SQL'),
    caption: trans.__('Indent the SQL of this %%lake cell and write its keywords in capitals'),
    isEnabled: args => isFormattable(cellOf(args)),
    isVisible: args => isFormattable(cellOf(args)),
    describedBy: {
      args: { type: 'object', properties: { menu: { type: 'boolean', description: 'The cell of the context menu' } } }
    },
    execute: async args => {
      try {
        await formatCell(cellOf(args), tracker.currentWidget);
      } catch (error) {
        Notification.error(error instanceof Error ? error.message : String(error), { autoClose: 10_000 });
      }
    }
  });
  const api = new TopicApi(app.serviceManager.serverSettings);
  const sourceOf = (args: ReadonlyPartialJSONObject) => cellOf(args)?.model.sharedModel.getSource() ?? '';
  app.commands.addCommand(CommandIDs.saveQuery, {
    label: trans.__('Save Query…'),
    caption: trans.__('Keep this %lake cell by a name, among the sidebar’s queries'),
    isEnabled: args => isQuery(sourceOf(args)),
    isVisible: args => isQuery(sourceOf(args)),
    describedBy: {
      args: { type: 'object', properties: { menu: { type: 'boolean', description: 'The cell of the context menu' } } }
    },
    execute: args => saveQuery(sourceOf(args), api, trans)
  });
  for (const command of [CommandIDs.formatSql, CommandIDs.saveQuery]) {
    palette?.addItem({ command, category: trans.__('Table Topic') });
  }
}

function show(cell: { readonly editor: unknown }, error: string | null): void {
  const view = (cell.editor as CodeMirrorEditor | null)?.editor;
  if (view !== undefined) {
    markError(view, error);
  }
}
