/** The line from an output to the kernel of its notebook: a comm, one for each kernel. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';
import type { Widget } from '@lumino/widgets';
import { TARGET } from './protocol';

interface IWaiting {
  resolve(reply: unknown): void;
  reject(error: Error): void;
}

/** The page that shows an element, for example a notebook. */
export function pageOf(app: JupyterFrontEnd, node: HTMLElement): Widget | null {
  for (const page of app.shell.widgets('main')) {
    if (page.node.contains(node)) {
      return page;
    }
  }
  return null;
}

/** The kernel of the notebook or console that shows an element. */
export function kernelOf(app: JupyterFrontEnd, node: HTMLElement): Kernel.IKernelConnection | null {
  const page = pageOf(app, node) as { sessionContext?: ISessionContext } | null;
  const kernel = page?.sessionContext?.session?.kernel ?? null;
  return kernel === null || kernel.isDisposed || kernel.status === 'dead' ? null : kernel;
}

/** Questions with numbers, and their replies in any order. */
export class Line {
  /** The kernel's line; a new one after a restart. */
  static to(kernel: Kernel.IKernelConnection): Line {
    let line = Line._all.get(kernel);
    if (line === undefined || line._isClosed) {
      line = new Line(kernel);
      Line._all.set(kernel, line);
    }
    return line;
  }

  private constructor(private readonly _kernel: Kernel.IKernelConnection) {
    this._comm = _kernel.createComm(TARGET);
    this._comm.onMsg = message => this._replied(message);
    this._comm.onClose = () => this._close();
    _kernel.statusChanged.connect(this._statusChanged, this);
    void this._comm.open({}).done.catch(() => this._close());
  }

  /** Rejects with the kernel's words, or empty ones if the kernel is gone or has no such results. */
  ask<T>(message: JSONObject): Promise<T> {
    const number = ++this._last;
    return new Promise<T>((resolve, reject) => {
      this._waiting.set(number, { resolve: reply => resolve(reply as T), reject });
      void this._comm.send({ ...message, number }).done.catch(() => this._close());
    });
  }

  private _replied(message: KernelMessage.ICommMsgMsg): void {
    const reply = message.content.data as { number: number; error?: string };
    const waiting = this._waiting.get(reply.number);
    this._waiting.delete(reply.number);
    if (reply.error === undefined) {
      waiting?.resolve(reply);
    } else {
      waiting?.reject(new Error(reply.error));
    }
  }

  private _statusChanged(_: unknown, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._close();
    }
  }

  private _close(): void {
    this._isClosed = true;
    this._kernel.statusChanged.disconnect(this._statusChanged, this);
    for (const waiting of this._waiting.values()) {
      waiting.reject(new Error(''));
    }
    this._waiting.clear();
  }

  private static readonly _all = new WeakMap<Kernel.IKernelConnection, Line>();
  private readonly _comm: Kernel.IComm;
  private readonly _waiting = new Map<number, IWaiting>();
  private _last = 0;
  private _isClosed = false;
}
