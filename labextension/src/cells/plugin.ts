/** Cells of notebooks: SQL in them, and commands that insert and format it. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import type { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { CommandIDs } from '../commandids';
import { copy } from '../telling';
import { formatCell, isFormattable } from './format';
import { addHints } from './hints';
import { addSqlCells, markError } from './sql';

export const cells: JupyterFrontEndPlugin<void> = {
  id: '@tabletopic/lab:cells',
  description: 'SQL in cells: highlighting, completion, errors where they are, and a format.',
  autoStart: true,
  requires: [INotebookTracker, IEditorExtensionRegistry],
  optional: [ICompletionProviderManager, ISettingRegistry, ICommandPalette, ITranslator],
  activate
};

function activate(
  app: JupyterFrontEnd,
  tracker: INotebookTracker,
  extensions: IEditorExtensionRegistry,
  completions: ICompletionProviderManager | null,
  settings: ISettingRegistry | null,
  palette: ICommandPalette | null,
  translator: ITranslator | null
): void {
  const trans = (translator ?? nullTranslator).load('tabletopic');
  addSqlCells(extensions);
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
    execute: args => {
      const source = String(args.source ?? '');
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
      notebook.activeCell?.model.sharedModel.setSource(source);
      app.shell.activateById(panel.id);
      notebook.mode = 'edit';
    }
  });
  app.commands.addCommand(CommandIDs.formatSql, {
    label: trans.__('Format SQL'),
    caption: trans.__('Indent the SQL of this %%lake cell and write its keywords in capitals'),
    isEnabled: () => isFormattable(tracker),
    isVisible: () => isFormattable(tracker),
    describedBy: { args: { type: 'object', properties: {} } },
    execute: async () => {
      try {
        await formatCell(tracker);
      } catch (error) {
        Notification.error(error instanceof Error ? error.message : String(error), { autoClose: 10_000 });
      }
    }
  });
  palette?.addItem({ command: CommandIDs.formatSql, category: trans.__('Table Topic') });
}

function show(cell: { readonly editor: unknown }, error: string | null): void {
  const view = (cell.editor as CodeMirrorEditor | null)?.editor;
  if (view !== undefined) {
    markError(view, error);
  }
}
