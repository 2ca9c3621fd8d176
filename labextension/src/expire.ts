/** Expiry of old snapshots: it deletes files, so users are asked first. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { WorkbenchModel } from './model';
import { tell } from './telling';

/** Ask, and have the topic's host do it; false if declined or failed. */
export async function expireSnapshots(topic: string, model: WorkbenchModel, trans: TranslationBundle): Promise<boolean> {
  const answer = await showDialog({
    title: trans.__('Old snapshots of %1', topic),
    body: trans.__(
      'Snapshots older than the topic’s time_travel_ms expire, and the files only they need are deleted: queries can no longer go back to them. Branches, tags and all current rows stay.'
    ),
    buttons: [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.warnButton({ label: trans.__('Expire') })],
    defaultButton: 0
  });
  if (!answer.button.accept) {
    return false;
  }
  const asked = await tell(model.expire(topic), () => model.problem(topic));
  if (asked) {
    Notification.info(trans.__('Requested an expiry of old snapshots of %1; see its events for the outcome', topic), { autoClose: 5_000 });
  }
  return asked;
}
