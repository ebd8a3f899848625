import { CheckpointError } from '../../spec/errors.ts';
import {
  PickledDict,
  PickledGlobal,
  PickledList,
  PickledObject,
  PickledTuple,
  type PickledValue,
} from './pickle-values.ts';
import { call, isAllowed, isObject, storageOf } from './torch-classes.ts';

/** The bytes end before the pickle does. */
export class PickleEnd extends Error {}

/** The value of a pickle, and the place after it. */
export interface Unpickled {
  readonly value: PickledValue;
  readonly end: number;
}

/**
 * Reads a pickle of tensors, as `torch.save` writes them (protocol 2 and later). Nothing is executed: it knows the
 * instructions for plain data, and a few classes of PyTorch as plain data. Throws a CheckpointError with the offset for
 * everything else, and PickleEnd if `bytes` end before the pickle.
 */
export function unpickle(bytes: Uint8Array, start: number, path: string): Unpickled {
  return new Unpickler(bytes, start, path).run();
}

const decoder = new TextDecoder('utf-8', { fatal: true });

/** The place on the stack where a list of values begins. */
const mark = Symbol('mark');

class Unpickler {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #path: string;
  readonly #stack: (PickledValue | typeof mark)[] = [];
  readonly #memo = new Map<number, PickledValue>();
  #at: number;
  /** The offset of the current instruction. */
  #begin: number;

  constructor(bytes: Uint8Array, start: number, path: string) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#path = path;
    this.#at = start;
    this.#begin = start;
  }

  run(): Unpickled {
    for (;;) {
      this.#begin = this.#at;
      const code = this.#byte();
      // STOP
      if (code === 0x2e) {
        const value = this.#pop();
        if (this.#stack.length > 0) throw this.#refuse('values that belong to nothing');
        return { value, end: this.#at };
      }
      this.#step(code);
    }
  }

  /** Carries out an instruction. The names are those of Python's pickletools. */
  #step(code: number): void {
    switch (code) {
      case 0x80: // PROTO
        this.#byte();
        return;
      case 0x95: // FRAME
        this.#take(8);
        return;
      case 0x28: // MARK
        this.#stack.push(mark);
        return;
      case 0x4e: // NONE
        this.#stack.push(null);
        return;
      case 0x88: // NEWTRUE
        this.#stack.push(true);
        return;
      case 0x89: // NEWFALSE
        this.#stack.push(false);
        return;
      case 0x4b: // BININT1
        this.#stack.push(this.#byte());
        return;
      case 0x4d: // BININT2
        this.#stack.push(this.#view.getUint16(this.#take(2), true));
        return;
      case 0x4a: // BININT
        this.#stack.push(this.#view.getInt32(this.#take(4), true));
        return;
      case 0x8a: // LONG1
        this.#stack.push(this.#long(this.#byte()));
        return;
      case 0x47: // BINFLOAT
        this.#stack.push(this.#view.getFloat64(this.#take(8), false));
        return;
      case 0x8c: // SHORT_BINUNICODE
        this.#stack.push(this.#text(this.#byte()));
        return;
      case 0x58: // BINUNICODE
        this.#stack.push(this.#text(this.#uint32()));
        return;
      case 0x43: // SHORT_BINBYTES
        this.#stack.push(this.#slice(this.#byte()));
        return;
      case 0x42: // BINBYTES
        this.#stack.push(this.#slice(this.#uint32()));
        return;
      case 0x7d: // EMPTY_DICT
        this.#stack.push(new PickledDict());
        return;
      case 0x5d: // EMPTY_LIST
        this.#stack.push(new PickledList());
        return;
      case 0x29: // EMPTY_TUPLE
        this.#stack.push(new PickledTuple([]));
        return;
      case 0x85: // TUPLE1
      case 0x86: // TUPLE2
      case 0x87: // TUPLE3
        this.#tuple(code - 0x84);
        return;
      case 0x74: // TUPLE
        this.#stack.push(new PickledTuple(this.#popMarked()));
        return;
      case 0x71: // BINPUT
        this.#memo.set(this.#byte(), this.#top());
        return;
      case 0x72: // LONG_BINPUT
        this.#memo.set(this.#uint32(), this.#top());
        return;
      case 0x94: // MEMOIZE
        this.#memo.set(this.#memo.size, this.#top());
        return;
      case 0x68: // BINGET
        this.#recall(this.#byte());
        return;
      case 0x6a: // LONG_BINGET
        this.#recall(this.#uint32());
        return;
      case 0x61: // APPEND
        this.#append([this.#pop()]);
        return;
      case 0x65: // APPENDS
        this.#append(this.#popMarked());
        return;
      case 0x73: // SETITEM
        this.#setItems([this.#pop(), this.#pop()].toReversed());
        return;
      case 0x75: // SETITEMS
        this.#setItems(this.#popMarked());
        return;
      case 0x63: // GLOBAL
        this.#global(this.#line(), this.#line());
        return;
      case 0x93: {
        // STACK_GLOBAL
        const [name, module] = [this.#pop(), this.#pop()];
        if (typeof name !== 'string' || typeof module !== 'string')
          throw this.#refuse('a class without a name');
        this.#global(module, name);
        return;
      }
      case 0x51: // BINPERSID
        this.#persistent();
        return;
      case 0x81: {
        // NEWOBJ
        const of = this.#stack.at(-2);
        if (!(of instanceof PickledGlobal) || !isObject(of.name)) throw this.#unknown(code);
        this.#reduce();
        return;
      }
      case 0x52: // REDUCE
        this.#reduce();
        return;
      case 0x62: // BUILD
        this.#build();
        return;
      default:
        throw this.#unknown(code);
    }
  }

  #unknown(code: number): CheckpointError {
    const hex = code.toString(16).padStart(2, '0');
    return this.#refuse(`the instruction 0x${hex}, which tensors do not need`);
  }

  #tuple(count: number): void {
    const items = Array.from({ length: count }, () => this.#pop());
    this.#stack.push(new PickledTuple(items.toReversed()));
  }

  #recall(index: number): void {
    const value = this.#memo.get(index);
    if (value === undefined)
      throw this.#refuse(`a reference to value ${index}, which is not there`);
    this.#stack.push(value);
  }

  #append(items: readonly PickledValue[]): void {
    const list = this.#top();
    if (!(list instanceof PickledList)) throw this.#refuse('items for what is no list');
    for (const item of items) list.items.push(item);
  }

  #setItems(items: readonly PickledValue[]): void {
    const dict = this.#top();
    if (!(dict instanceof PickledDict) || items.length % 2 !== 0)
      throw this.#refuse('entries for what is no dict');
    for (let index = 0; index < items.length; index += 2) {
      dict.entries.push([items[index] ?? null, items[index + 1] ?? null]);
    }
  }

  #global(module: string, name: string): void {
    const whole = `${module}.${name}`;
    if (!isAllowed(whole)) {
      throw this.#refuse(
        `the class or function ${JSON.stringify(whole.slice(0, 200))}, which is not one of those of tensors`,
      );
    }
    this.#stack.push(new PickledGlobal(whole));
  }

  #persistent(): void {
    const storage = storageOf(this.#pop());
    if (storage === undefined) throw this.#refuse('a storage that is not as PyTorch writes it');
    this.#stack.push(storage);
  }

  #reduce(): void {
    const [inputs, of] = [this.#pop(), this.#pop()];
    if (!(of instanceof PickledGlobal) || !(inputs instanceof PickledTuple))
      throw this.#refuse('a call of what is no function');
    const result = call(of.name, inputs.items);
    if (result === undefined)
      throw this.#refuse(`a call of ${of.name} with other inputs than PyTorch gives it`);
    this.#stack.push(result);
  }

  /** Python would set attributes. State dicts have some that no reader of tensors needs. */
  #build(): void {
    const state = this.#pop();
    const of = this.#top();
    if (of instanceof PickledDict && state instanceof PickledDict) return;
    if (of instanceof PickledObject && state instanceof PickledDict) {
      of.state = state;
      return;
    }
    throw this.#refuse('attributes of an object that is no state dict');
  }

  #top(): PickledValue {
    const value = this.#stack.at(-1);
    if (value === undefined || value === mark)
      throw this.#refuse('an instruction without a value to work on');
    return value;
  }

  #pop(): PickledValue {
    const value = this.#top();
    this.#stack.pop();
    return value;
  }

  #popMarked(): PickledValue[] {
    const at = this.#stack.lastIndexOf(mark);
    if (at < 0) throw this.#refuse('the end of a list that has no beginning');
    const values = this.#stack.splice(at).slice(1);
    return values.filter((value) => value !== mark);
  }

  #long(byteLength: number): number | bigint {
    const bytes = this.#slice(byteLength);
    let value = 0n;
    for (const byte of bytes.toReversed()) value = (value << 8n) | BigInt(byte);
    const signed = BigInt.asIntN(8 * byteLength, value);
    const number = Number(signed);
    return Number.isSafeInteger(number) ? number : signed;
  }

  #text(byteLength: number): string {
    const bytes = this.#slice(byteLength);
    try {
      return decoder.decode(bytes);
    } catch (cause) {
      throw this.#refuse('a text that is not UTF-8', cause);
    }
  }

  /** A text up to the end of its line. */
  #line(): string {
    const end = this.#bytes.indexOf(0x0a, this.#at);
    if (end < 0) throw new PickleEnd();
    const text = this.#text(end - this.#at);
    this.#at = end + 1;
    return text;
  }

  #uint32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  #byte(): number {
    return this.#view.getUint8(this.#take(1));
  }

  #slice(byteLength: number): Uint8Array {
    const at = this.#take(byteLength);
    return this.#bytes.slice(at, at + byteLength);
  }

  /** Passes over so many bytes, and returns where they begin. */
  #take(byteLength: number): number {
    const at = this.#at;
    if (at + byteLength > this.#bytes.byteLength) throw new PickleEnd();
    this.#at += byteLength;
    return at;
  }

  #refuse(found: string, cause?: unknown): CheckpointError {
    return new CheckpointError(
      {
        asked: `Reading the tensors of ${this.#path}`,
        found: `at byte ${this.#begin} of the pickle: ${found}`,
        todo: 'Nothing of the file was executed. If you trust it, load it in Python, and write its tensors with safetensors.torch.save_file',
      },
      { path: this.#path, byteOffset: this.#begin },
      cause === undefined ? {} : { cause },
    );
  }
}
