/** Replay of dead letters: the plan is shown first. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import type { IReplayPlan, ISelectedLetters } from './api';
import { css, h } from './dom';
import type { WorkbenchModel } from './model';
import { tell } from './telling';
import { number } from './words';

/** Show the plan, ask, and have the topic's host do it; false if declined or failed. */
export async function replayLetters(
  topic: string,
  model: WorkbenchModel,
  trans: TranslationBundle,
  letters: ISelectedLetters = {}
): Promise<boolean> {
  const plan = await model.planReplay(topic, letters);
  if (plan === null) {
    return tell(Promise.resolve(false), () => model.problem(topic));
  }
  const buttons =
    plan.rows > 0
      ? [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.okButton({ label: trans.__('Replay') })]
      : [Dialog.cancelButton({ label: trans.__('Close') })];
  const answer = await showDialog({
    title: trans.__('Dead letters of %1', topic),
    body: new Widget({ node: planNode(plan, trans) }),
    buttons
  });
  if (!answer.button.accept) {
    return false;
  }
  const asked = await tell(model.replay(topic, letters), () => model.problem(topic));
  if (asked) {
    Notification.info(trans.__('Replaying the dead letters of %1; see its events for the outcome', topic), {
      autoClose: 5_000
    });
  }
  return asked;
}

function planNode(plan: IReplayPlan, trans: TranslationBundle): HTMLElement {
  const said =
    plan.rows > 0
      ? trans.__('With the current settings and schemas, %1 of %2 dead letters would become rows.', number(plan.rows), number(plan.letters))
      : trans.__('With the current settings and schemas, none of %1 dead letters would become a row.', number(plan.letters));
  const stay = Object.entries(plan.stayed).map(([reason, letters]) =>
    trans.__('%1: %2 stay dead letters', reason, number(letters))
  );
  const changes = plan.changes.map(change => trans.__('the table would change: %1', change));
  const points = [...stay, ...changes].map(text => h('li', {}, text));
  return h('div', { class: css('replay') }, h('p', {}, said), points.length > 0 ? h('ul', {}, ...points) : null);
}
