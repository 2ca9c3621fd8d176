/** The servers that the settings name, as the server extension shows and changes them. */
import type { TopicApi } from '../api';

/** A property that a way to a server needs; `also` derives others from its answer, which is `{}` there. */
export interface IQuestion {
  readonly key: string;
  readonly text: string;
  readonly default: string;
  readonly optional: boolean;
  readonly secret: boolean;
  readonly choices: readonly string[];
  readonly also: Readonly<Record<string, string>>;
}

/** A way to reach a server; a choice among `then` follows its questions. */
export interface IWay {
  readonly text: string;
  readonly questions: readonly IQuestion[];
  readonly fixed: Readonly<Record<string, string>>;
  readonly then: readonly IWay[];
  readonly then_text: string;
}

/** `value` is null for a secret that is set, and empty without one; see the REST interface. */
export interface IProperty {
  readonly key: string;
  readonly value: string | null;
  readonly shown: string;
  readonly origin: string;
  readonly variable: string;
}

export interface ISection {
  readonly section: string;
  readonly title: string;
  readonly ways: readonly IWay[];
  readonly way: number | null;
  readonly storage: number | null;
  readonly properties: readonly IProperty[];
}

export interface IServers {
  readonly file: string;
  readonly version: string;
  /** The one whose servers these are, the one in use, and all beside the file. */
  readonly profile: string;
  readonly used_profile: string;
  readonly profiles: readonly string[];
  readonly sections: readonly ISection[];
}

export interface ICheck {
  readonly name: string;
  readonly status: 'ok' | 'warn' | 'fail';
  readonly detail: string;
  readonly remedy: string;
}

export interface ISaved {
  readonly version: string;
  readonly section: ISection;
  readonly variables: readonly string[];
}

/** All properties of a section; null leaves one as the file has it. */
export type Typed = Record<string, string | null>;

export class ServersApi {
  constructor(private readonly _api: TopicApi) {}

  /** The profile to look at and change; null: the one in use. */
  profile: string | null = null;

  servers(): Promise<IServers> {
    return this._api.ask('GET', ['servers'], undefined, this._query);
  }

  async addProfile(name: string): Promise<void> {
    await this._api.addProfile(name);
  }

  /** The section of another catalog, which may not be there yet. */
  further(name: string): Promise<ISection> {
    return this._api.ask('GET', ['servers', `catalogs.${name}`], undefined, this._query);
  }

  async test(section: string, properties: Typed): Promise<readonly ICheck[]> {
    const { checks } = await this._api.ask<{ checks: ICheck[] }>('POST', ['servers', section, 'test'], { properties, profile: this.profile });
    return checks;
  }

  save(section: string, properties: Typed, version: string, secretsToo: boolean): Promise<ISaved> {
    return this._api.ask('PUT', ['servers', section], { properties, version, secrets_too: secretsToo, profile: this.profile });
  }

  private get _query(): Record<string, string> {
    return this.profile === null ? {} : { profile: this.profile };
  }
}
