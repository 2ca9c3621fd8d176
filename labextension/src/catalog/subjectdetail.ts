/** A subject of the registry: two of its versions side by side, its rule, and the topics that use it. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { css, h } from '../dom';
import { choice, trouble } from './parts';
import type { ISubject, IVersion } from './protocol';

export function subjectDetail(subject: ISubject, trans: TranslationBundle): HTMLElement[] {
  const { versions } = subject;
  const topics = subject.topics.length > 0 ? subject.topics.join(', ') : trans.__('none');
  const sides = h('div', { class: css('catalogSides') });
  const options = versions.map(each => trans.__('version %1 · id %2', each.version, String(each.id ?? '-')));
  const draw = () => {
    const chosen = picks.map(pick => versions[Number(pick.value)]);
    const [left, right] = chosen;
    sides.replaceChildren(
      ...chosen.map((version, at) => (version === undefined ? '' : side(version, at === 0 ? right : left, trans)))
    );
  };
  const picks = [choice(trans.__('Version on the left'), options, Math.min(1, versions.length - 1), draw)];
  if (versions.length > 1) {
    picks.push(choice(trans.__('Version on the right'), options, 0, draw));
  }
  draw();
  return [
    h('h2', {}, subject.subject),
    h('p', {}, trans.__('compatibility %1 · %2 versions · topics: %3', subject.compatibility, subject.version_count, topics)),
    h('div', { class: css('catalogSides') }, ...picks),
    sides
  ];
}

/** A version's text; the lines that the other one does not have are marked. */
function side(version: IVersion, other: IVersion | undefined, trans: TranslationBundle): HTMLElement {
  if (version.error !== null) {
    return trouble(version.error);
  }
  const plain = (line: string) => line.trim().replace(/,$/, '');
  const known = new Set((other?.text ?? version.text).split('\n').map(plain));
  const lines = version.text.split('\n').flatMap(line => [known.has(plain(line)) ? line : h('mark', {}, line), '\n']);
  const label = trans.__('%1 schema, version %2', version.kind, version.version);
  const text = h('pre', { tabindex: '0', role: 'region', 'aria-label': label });
  text.append(...lines, ...version.references.map(reference => `\n${trans.__('refers to')} ${reference}\n`));
  return text;
}
