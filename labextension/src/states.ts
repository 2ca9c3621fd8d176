// Written by `python -m docs.generate` from tabletopic_kernel/render/states.py.

/** How much attention something needs. Each has a colour and a sign: colour is never the only cue. */
export type Tone = 'good' | 'busy' | 'note' | 'quiet' | 'warn' | 'bad';

/** Its word and tone, and the section of the page on trouble that says what to do. */
interface IState {
  readonly text: string;
  readonly tone: Tone;
  readonly section?: string;
}

/** Each state, and each reason why a topic is late. */
export const STATES: Readonly<Record<string, IState>> = {
  starting: { text: 'starting', tone: 'busy' },
  running: { text: 'running', tone: 'good' },
  staged: { text: 'running', tone: 'good' },
  committing: { text: 'running', tone: 'good' },
  settling: { text: 'resolving', tone: 'busy' },
  waiting: { text: 'waiting', tone: 'warn', section: 'waiting' },
  waiting_for_schema: { text: 'waiting for schema', tone: 'warn', section: 'waiting' },
  waiting_for_registry: { text: 'waiting for registry', tone: 'warn', section: 'waiting' },
  waiting_for_catalog: { text: 'waiting for catalog', tone: 'warn', section: 'waiting' },
  waiting_for_broker: { text: 'waiting for broker', tone: 'warn', section: 'waiting' },
  draining: { text: 'stopping', tone: 'busy' },
  dropping: { text: 'stopping', tone: 'busy' },
  closing: { text: 'stopping', tone: 'busy' },
  closing_settling: { text: 'stopping', tone: 'busy' },
  closed: { text: 'stopped', tone: 'quiet' },
  stopped: { text: 'stopped', tone: 'quiet' },
  paused: { text: 'paused', tone: 'quiet' },
  failed: { text: 'failed', tone: 'bad', section: 'failed' },
  refused_too_much: { text: 'refused too much', tone: 'bad', section: 'failed' },
  waiting_for_turn: { text: 'waiting for turn', tone: 'warn', section: 'lag' },
  behind: { text: 'behind', tone: 'warn', section: 'lag' },
  open_transaction: { text: 'open transaction', tone: 'warn', section: 'lag' },
  no_host: { text: 'no host', tone: 'warn', section: 'host' },
  unknown: { text: 'unknown', tone: 'quiet', section: 'waiting' },
  off: { text: 'off', tone: 'quiet' }
};
