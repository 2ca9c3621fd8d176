/** The tab with the dead letters of a topic. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { undoIcon } from '@jupyterlab/ui-components';
import { LazyPage } from '../lazypage';
import type { WorkbenchModel } from '../model';

export function lettersPage(topic: string, model: WorkbenchModel, trans: TranslationBundle): LazyPage {
  const title = {
    label: trans.__('Dead Letters of %1', topic),
    caption: trans.__('Records of %1 that could not become rows, and why', topic),
    icon: undoIcon
  };
  const load = async () => {
    const { LettersView } = await import(/* webpackChunkName: "letters" */ './view');
    return new LettersView(topic, model, trans);
  };
  return new LazyPage(title, load, topic);
}
