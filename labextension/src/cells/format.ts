/** “Format SQL”: the kernel has the parser; its answer replaces the cell's text. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { isSql } from './sql';

const MODULE = 'tabletopic_kernel.faces.notebook.sql.formatting';

type Cell = INotebookTracker['activeCell'];

export function isFormattable(cell: Cell): boolean {
  return isSql(cell?.model.sharedModel.getSource() ?? '');
}

export async function formatCell(cell: Cell, panel: NotebookPanel | null): Promise<void> {
  const kernel = panel?.sessionContext.session?.kernel;
  if (!cell || !kernel) {
    throw new Error('Format SQL needs a running kernel');
  }
  const model = cell.model.sharedModel;
  const source = model.getSource();
  // JSON's strings are Python's.
  const call = `__import__(${JSON.stringify(MODULE)}, fromlist=["formatted"]).formatted(${JSON.stringify(source)})`;
  const reply = await kernel.requestExecute({ code: '', silent: true, user_expressions: { sql: call } }).done;
  if (reply.content.status !== 'ok') {
    throw new Error('the kernel did not answer');
  }
  const answer = reply.content.user_expressions.sql as IAnswer | undefined;
  if (answer?.status !== 'ok') {
    throw new Error(answer?.evalue ?? 'the kernel did not answer');
  }
  if (model.getSource() === source) {
    model.setSource(answer.data['application/json'].text);
  }
}

interface IAnswer {
  readonly status: string;
  readonly evalue?: string;
  readonly data: { 'application/json': { text: string } };
}
