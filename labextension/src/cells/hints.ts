/** Completion as one types, in SQL cells alone: elsewhere JupyterLab's setting stays as the user has it. */
import type { ICompletionContext, ICompletionProvider, ICompletionProviderManager } from '@jupyterlab/completer';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { isSql } from './sql';

const COMPLETER = '@jupyterlab/completer-extension:manager';
/** A part of a name, a dot behind one, or the beginning of a variable's. */
const ASKS = /[\w.$"]$/;

type Changed = Parameters<NonNullable<ICompletionProvider['shouldShowContinuousHint']>>[1];

/** The kernel suggests; this one only knows when. */
class WhileTyping implements ICompletionProvider {
  readonly identifier = 'tabletopic:sql';
  readonly rank = 1100;
  readonly renderer = null;

  async isApplicable(context: ICompletionContext): Promise<boolean> {
    return isSql(context.editor?.model.sharedModel.getSource() ?? '');
  }

  fetch(request: { offset: number }): ReturnType<ICompletionProvider['fetch']> {
    return Promise.resolve({ start: request.offset, end: request.offset, items: [] });
  }

  shouldShowContinuousHint(visible: boolean, changed: Changed): boolean {
    const inserted = (changed.sourceChange ?? []).map(delta => delta.insert ?? '').join('');
    return !visible && inserted.length === 1 && ASKS.test(inserted);
  }
}

/** Let the kernel load the names of tables, functions and keywords before the first key: that takes seconds. */
function fetchNames(tracker: INotebookTracker): void {
  const kernel = tracker.currentWidget?.sessionContext.session?.kernel;
  for (const code of ['%%lake\nSELECT * FROM ', '%%lake\nSELECT a']) {
    kernel?.requestComplete({ code, cursor_pos: code.length }).catch(() => undefined); // the kernel has ended
  }
}

export function addHints(
  manager: ICompletionProviderManager,
  tracker: INotebookTracker,
  settings: ISettingRegistry | null
): void {
  // The manager's class has it, its interface does not: without it, Tab completes as everywhere.
  const hinting = manager as { setContinuousHinting?: (on: boolean) => void };
  let everywhere = false;
  let isOn: boolean | null = null;
  let wasSql = false;
  const follow = () => {
    const isInSql = isSql(tracker.activeCell?.model.sharedModel.getSource() ?? '');
    if (isInSql && !wasSql) {
      fetchNames(tracker);
    }
    wasSql = isInSql;
    const wanted = everywhere || isInSql;
    if (wanted !== isOn) {
      isOn = wanted;
      hinting.setContinuousHinting?.(wanted);
    }
  };
  manager.registerProvider(new WhileTyping());
  let changed: (() => void) | null = null;
  tracker.activeCellChanged.connect((_, cell) => {
    changed?.();
    changed = null;
    if (cell !== null) {
      const model = cell.model;
      wasSql = false;
      model.contentChanged.connect(follow);
      changed = () => void model.contentChanged.disconnect(follow);
    }
    follow();
  });
  settings
    ?.load(COMPLETER)
    .then(loaded => {
      const read = () => {
        everywhere = loaded.composite.autoCompletion === true;
        isOn = null;
        follow();
      };
      loaded.changed.connect(read);
      read();
    })
    .catch(() => undefined); // a JupyterLab without a completer's settings
}
