/** A user's actions: which are under way, until the overview shows them, and why the last ones failed. */
import { reasonOf } from './api';
import type { IOverview } from './api';

/** How long an action may take to appear in the overview; then the overview counts again. */
const PATIENCE_MS = 20_000;

interface IPending {
  readonly label: string;
  /** Whether the overview shows that it is done; absent while the request itself is in progress. */
  done?: (overview: IOverview) => boolean;
  until: number;
}

/** Whom actions tell. */
export interface IActionListener {
  /** Something on display has changed. */
  changed(): void;
  /** An action has ended, in words. */
  said(words: string): void;
  /** A request has succeeded: the overview is worth a look. */
  done(): void;
}

/** By key: a topic, or what concerns all. */
export class Actions {
  constructor(private readonly _listener: IActionListener) {}

  /** The action in progress, in words; null for none. */
  pending(key: string): string | null {
    return this._pending.get(key)?.label ?? null;
  }

  /** Why the last action failed; null if it did not. */
  problem(key: string): string | null {
    return this._problems.get(key) ?? null;
  }

  /** The user has read it. */
  dismiss(key: string): void {
    this._problems.delete(key);
    this._listener.changed();
  }

  get areUnderWay(): boolean {
    return this._pending.size > 0;
  }

  /** Forget the actions that the overview shows, or should by now. */
  settle(overview: IOverview): void {
    for (const [key, pending] of this._pending) {
      if (pending.done?.(overview) === true || Date.now() > pending.until) {
        this._pending.delete(key);
      }
    }
  }

  /** Run one action: mark it, and announce its outcome. False if it failed; `problem` then says why. */
  async run(
    key: string,
    label: string,
    request: () => Promise<unknown>,
    end: { readonly done?: (overview: IOverview) => boolean; readonly said?: string }
  ): Promise<boolean> {
    const pending: IPending = { label, until: Infinity };
    this._pending.set(key, pending);
    this._problems.delete(key);
    this._listener.changed();
    try {
      await request();
    } catch (error) {
      this._problems.set(key, reasonOf(error));
      this._pending.delete(key);
      this._listener.changed();
      return false;
    }
    if (end.done !== undefined) {
      pending.done = end.done;
      pending.until = Date.now() + PATIENCE_MS;
    } else {
      this._pending.delete(key);
    }
    if (end.said !== undefined) {
      this._listener.said(end.said);
    }
    this._listener.done();
    return true;
  }

  private readonly _pending = new Map<string, IPending>();
  private readonly _problems = new Map<string, string>();
}
