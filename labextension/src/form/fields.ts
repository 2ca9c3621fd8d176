/** One input per setting, derived from its part of the JSON Schema. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { JSONValue } from '@lumino/coreutils';
import type { IFieldSchema, ISettingsSchema } from '../api';
import { css, h, setAttribute, setShown, setText } from '../dom';
import { bytesText, millisecondsText, momentText } from './units';

/** An input: the visible element, and the JSON value behind it. */
export interface IField {
  readonly name: string;
  readonly node: HTMLElement;
  /** The value in the server's form. Throws an Error with a message if it is invalid. */
  value(): JSONValue;
  set(value: JSONValue): void;
  /** Show what is wrong with it; null clears that. */
  complain(message: string | null): void;
}

interface IInput {
  readonly element: HTMLElement;
  /** Hidden content that belongs beside it. */
  readonly extra?: readonly HTMLElement[];
  readonly value: () => JSONValue;
  readonly set: (value: JSONValue) => void;
}

/** The field for one setting; null for a setting without a choice. */
export function makeField(
  topic: string,
  name: string,
  whole: ISettingsSchema,
  trans: TranslationBundle
): IField | null {
  const schema = resolved(whole.properties[name] ?? {}, whole);
  const input = makeInput(name, schema, trans);
  if (input === null) {
    return null;
  }
  const id = `jp-TableTopic-setting-${topic}-${name}`; // several forms may be open
  const help = h('p', { class: css('help'), id: `${id}-help` }, sentence(schema.description ?? ''));
  const complaint = h('p', { class: css('complaint'), id: `${id}-complaint` });
  setShown(complaint, false);
  const control = input.element;
  control.setAttribute('aria-describedby', `${help.id} ${complaint.id}`);
  control.id = id;
  const several = control.tagName === 'FIELDSET';
  const words = schema.label ?? labelOf(name);
  const label = several
    ? h('span', { class: css('label') }, words)
    : h('label', { class: css('label'), for: id }, words);
  if (several) {
    control.setAttribute('aria-label', words);
  }
  return {
    name,
    node: h('div', { class: css('field') }, label, control, ...(input.extra ?? []), help, complaint),
    value: input.value,
    set: input.set,
    complain: message => {
      setText(complaint, message ?? '');
      setShown(complaint, message !== null);
      setAttribute(control, 'aria-invalid', message === null ? null : 'true');
    }
  };
}

/** "commit_interval_ms" becomes "Commit interval", "commit_bytes" "Commit size": users type the unit. */
export function labelOf(name: string): string {
  const plain = name.replace(/_ms$/, '').replace(/(_size)?_bytes$/, '_size');
  return sentence(plain.replace(/_/g, ' '));
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The schema with its reference resolved and, for "this or null", the part that is not null. */
function resolved(schema: IFieldSchema, whole: ISettingsSchema): IFieldSchema {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split('/').at(-1) ?? '';
    return { ...schema, ...whole.$defs?.[name] };
  }
  const real = schema.anyOf?.filter(one => one.type !== 'null');
  return real?.length === 1 ? { ...schema, ...real[0] } : schema;
}

function makeInput(name: string, schema: IFieldSchema, trans: TranslationBundle): IInput | null {
  if (schema.const !== undefined || schema.enum?.length === 1) {
    return null;
  }
  if (schema.enum !== undefined) {
    return choice(schema.enum);
  }
  if (schema.format === 'sql') {
    return passage();
  }
  if (schema.format === 'password') {
    return text(name, [], plain, 'password');
  }
  if (schema.anyOf !== undefined) {
    const words = schema.anyOf.flatMap(one => one.enum ?? []);
    return text(name, words, value => (typeof value === 'number' ? momentText(value) : plain(value)));
  }
  if (schema.type === 'integer' && name.endsWith('_ms')) {
    return text(name, [], value => (typeof value === 'number' ? millisecondsText(value) : plain(value)));
  }
  if (schema.type === 'integer' && name.endsWith('_bytes')) {
    return text(name, [], value => (typeof value === 'number' ? bytesText(value) : plain(value)));
  }
  switch (schema.type) {
    case 'boolean':
      return check();
    case 'integer':
    case 'number':
      return count(schema);
    case 'array':
      return schema.items?.enum !== undefined ? flags(schema.items.enum) : lines(trans);
    case 'object':
      return pairs(trans);
    default:
      return text(name, [], plain);
  }
}

function plain(value: JSONValue): string {
  return value === null ? '' : String(value);
}

/** A line of text; empty is null. Durations, sizes and times are sent as written: the server parses them. */
function text(
  name: string,
  suggestions: readonly JSONValue[],
  show: (value: JSONValue) => string,
  type = 'text'
): IInput {
  const autocomplete = type === 'password' ? 'new-password' : 'off'; // no browser fills in another one
  const input = h('input', { type, class: 'jp-mod-styled', spellcheck: 'false', autocomplete });
  const extra: HTMLElement[] = [];
  if (suggestions.length > 0) {
    const id = `jp-TableTopic-suggestions-${name}`;
    extra.push(h('datalist', { id }, ...suggestions.map(one => h('option', { value: String(one) }))));
    input.setAttribute('list', id);
  }
  return {
    element: input,
    extra,
    value: () => input.value.trim() || null,
    set: value => {
      input.value = show(value);
    }
  };
}

/** Text of several lines, which a single line would join; empty is null. */
function passage(): IInput {
  const area = h('textarea', { rows: '3', class: 'jp-mod-styled', spellcheck: 'false' });
  return {
    element: area,
    value: () => area.value.trim() || null,
    set: value => {
      area.value = plain(value);
    }
  };
}

function count(schema: IFieldSchema): IInput {
  const limit = (value: number | undefined) => (value === undefined ? null : String(value));
  const input = h('input', {
    type: 'number',
    class: 'jp-mod-styled',
    min: limit(schema.minimum),
    max: limit(schema.maximum),
    step: schema.type === 'integer' ? '1' : 'any'
  });
  return {
    element: input,
    value: () => (input.value === '' ? null : Number(input.value)),
    set: value => {
      input.value = plain(value);
    }
  };
}

function choice(options: readonly JSONValue[]): IInput {
  const select = h('select', { class: 'jp-mod-styled' });
  select.append(...options.map(one => h('option', { value: String(one) }, String(one))));
  return {
    element: select,
    value: () => options[select.selectedIndex] ?? null,
    set: value => {
      select.value = plain(value);
    }
  };
}

function check(): IInput {
  const input = h('input', { type: 'checkbox' });
  return {
    element: input,
    value: () => input.checked,
    set: value => {
      input.checked = value === true;
    }
  };
}

function flags(options: readonly JSONValue[]): IInput {
  const boxes = options.map(one => ({ one, box: h('input', { type: 'checkbox' }) }));
  const element = h('fieldset', { class: css('flags') });
  element.append(...boxes.map(({ one, box }) => h('label', {}, box, String(one))));
  return {
    element,
    value: () => boxes.filter(({ box }) => box.checked).map(({ one }) => one),
    set: value => {
      const on = Array.isArray(value) ? value : [];
      boxes.forEach(({ one, box }) => (box.checked = on.includes(one)));
    }
  };
}

function lines(trans: TranslationBundle): IInput {
  const area = h('textarea', {
    rows: '2',
    class: 'jp-mod-styled',
    spellcheck: 'false',
    placeholder: trans.__('one per line')
  });
  return {
    element: area,
    value: () => linesOf(area.value),
    set: value => {
      area.value = Array.isArray(value) ? value.map(plain).join('\n') : '';
    }
  };
}

function pairs(trans: TranslationBundle): IInput {
  const area = h('textarea', {
    rows: '2',
    class: 'jp-mod-styled',
    spellcheck: 'false',
    placeholder: trans.__('name = value, one per line')
  });
  return {
    element: area,
    value: () => Object.fromEntries(linesOf(area.value).map(line => pairOf(line, trans))),
    set: value => {
      const entries = value !== null && typeof value === 'object' ? Object.entries(value) : [];
      area.value = entries.map(([key, one]) => `${key} = ${plain(one)}`).join('\n');
    }
  };
}

function linesOf(value: string): string[] {
  return value
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '');
}

function pairOf(line: string, trans: TranslationBundle): [string, string] {
  const at = line.indexOf('=');
  if (at < 1) {
    throw new Error(trans.__('“%1” is not of the form name = value', line));
  }
  return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}
