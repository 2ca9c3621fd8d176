/** The fields of a server's properties: what a way needs, and what else is set. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IFieldSchema } from '../answers';
import type { IField } from '../form/fields';
import { makeField } from '../form/fields';
import type { IProperty, IQuestion, ISection, IWay, Typed } from './protocol';

/** The name of the field for what has none of its own. */
const OTHERS = 'others';

export class PropertyFields {
  /** `_drafts`: what was typed before, by property. */
  constructor(
    private readonly _section: ISection,
    private readonly _ways: readonly IWay[],
    private readonly _drafts: ReadonlyMap<string, string>,
    private readonly _trans: TranslationBundle
  ) {
    for (const question of this._questions) {
      this._fields.push(this._field(this._property(question.key), question));
    }
    const others = this._others();
    for (const property of others.filter(each => !isOpen(each))) {
      this._fields.push(this._field(property, null));
    }
    const schema = { type: 'object', label: _trans.__('Other properties'), description: _trans.__('As the client names them') };
    this._rest = this._make(OTHERS, schema);
    this._rest.set(Object.fromEntries(others.filter(isOpen).map(each => [each.key, each.value])));
  }

  get nodes(): HTMLElement[] {
    return [...this._fields, this._rest].map(field => field.node);
  }

  /** What is in the fields, by property; secrets are among them. */
  drafts(): [string, string][] {
    return this._fields.map(field => [field.name, String(field.value() ?? '')]);
  }

  /** Null if something is missing: see the fields. */
  typed(): Typed | null {
    const typed: Typed = Object.assign({}, ...this._ways.map(way => way.fixed));
    let fine = true;
    for (const field of [...this._fields, this._rest]) {
      field.complain(null);
    }
    for (const field of this._fields) {
      const property = this._property(field.name);
      const question = this._questions.find(each => each.key === field.name);
      const value = isFixed(property) ? null : field.value();
      if (typeof value === 'string') {
        typed[field.name] = value;
        for (const [key, text] of Object.entries(question?.also ?? {})) {
          typed[key] = text.replaceAll('{}', value);
        }
      } else if (isFixed(property) || property.value === null) {
        typed[field.name] = null;
      } else if (question !== undefined && !question.optional && !question.secret) {
        field.complain(this._trans.__('This is needed.'));
        fine = false;
      }
    }
    try {
      Object.assign(typed, this._rest.value());
    } catch (error) {
      this._rest.complain(error instanceof Error ? error.message : String(error));
      fine = false;
    }
    return fine ? typed : null;
  }

  private get _questions(): readonly IQuestion[] {
    return this._ways.flatMap(way => way.questions);
  }

  /** What is set and belongs to no way; without a way, all that is set. */
  private _others(): IProperty[] {
    const known = new Set(keysOf(this._ways.length > 0 ? this._section.ways : []));
    const here = this._section.properties;
    return here.filter(each => each.origin !== 'default' && !known.has(each.key));
  }

  private _property(key: string): IProperty {
    const none = { key, value: '', shown: '', origin: 'default', variable: '' };
    return this._section.properties.find(each => each.key === key) ?? none;
  }

  private _field(property: IProperty, question: IQuestion | null): IField {
    const isSecret = property.value === null || question?.secret === true;
    const choices = question?.choices ?? [];
    const field = this._make(property.key, {
      label: question?.text ?? property.key,
      description: this._origin(property, isSecret),
      ...(isSecret ? { format: 'password' } : choices.length > 0 && { enum: [...new Set([...choices, property.value || choices[0] || ''])] })
    });
    const control = field.node.querySelector<HTMLInputElement | HTMLSelectElement>('input, select');
    if (control instanceof HTMLInputElement && isSecret) {
      control.placeholder = property.shown;
    }
    field.set(this._drafts.get(property.key) ?? (property.value || (question?.default ?? '')));
    if (control !== null) {
      control.disabled = isFixed(property);
    }
    return field;
  }

  private _origin({ key, value, origin, variable }: IProperty, isSecret: boolean): string {
    const trans = this._trans;
    if (origin.startsWith('TABLETOPIC_')) {
      return trans.__('Property %1, from the variable %2: change it there', key, origin);
    }
    if (value === null) {
      return trans.__('Property %1, from %2; leave it empty to keep it', key, origin);
    }
    if (isSecret) {
      return trans.__('Property %1, not set; the variable %2 can hold it', key, variable);
    }
    return origin === 'default' ? trans.__('Property %1, not set', key) : trans.__('Property %1, from %2', key, origin);
  }

  private _make(name: string, schema: IFieldSchema): IField {
    const field = makeField(this._section.section, name, { properties: { [name]: schema } }, this._trans);
    if (field === null) {
      throw new Error(name);
    }
    field.node.addEventListener('input', () => field.complain(null));
    return field;
  }

  private readonly _fields: IField[] = [];
  private readonly _rest: IField;
}

/** Set where this page cannot change it. */
function isFixed(property: IProperty): boolean {
  return property.origin.startsWith('TABLETOPIC_');
}

function isOpen(property: IProperty): boolean {
  return property.value !== null && !isFixed(property);
}

function keysOf(ways: readonly IWay[]): string[] {
  return ways.flatMap(way => [
    ...Object.keys(way.fixed),
    ...way.questions.flatMap(each => [each.key, ...Object.keys(each.also)]),
    ...keysOf(way.then)
  ]);
}
