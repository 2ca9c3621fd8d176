/** Messages of commands in the corner of the window. */
import { Clipboard, Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

/** In addition to the sidebar, which may be closed: say why an action failed. */
export async function tell(run: Promise<boolean>, problem: () => string | null): Promise<boolean> {
  const done = await run;
  if (!done) {
    Notification.error(problem() ?? '', { autoClose: 10_000 });
  }
  return done;
}

export function copy(text: string, trans: TranslationBundle): void {
  Clipboard.copyToSystem(text);
  Notification.success(trans.__('Copied: paste it into a cell'), { autoClose: 2_000 });
}
