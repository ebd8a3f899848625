/** A general register of 64 bits. */
export interface Register {
  readonly kind: 'register';
  readonly index: number;
}

/** A vector register. `byteLength` is the size that the register's name stands for. */
export interface Vector {
  readonly kind: 'vector';
  readonly index: number;
  readonly byteLength: 16 | 32 | 64;
}

/** A mask register of AVX-512, with one bit for each element. k0 stands for no mask. */
export interface Mask {
  readonly kind: 'mask';
  readonly index: number;
}

/** A tile register of AMX, with 16 rows of 64 bytes. */
export interface Tile {
  readonly kind: 'tile';
  readonly index: number;
}

/** The memory at base + index * scale + displacement. */
export interface Memory {
  readonly kind: 'memory';
  readonly base: Register;
  readonly index: Register | null;
  readonly scale: 1 | 2 | 4 | 8;
  readonly displacement: number;
}

const register = (index: number): Register => ({ kind: 'register', index });

export const rax: Register = register(0);
export const rcx: Register = register(1);
export const rdx: Register = register(2);
export const rbx: Register = register(3);
export const rsp: Register = register(4);
export const rbp: Register = register(5);
export const rsi: Register = register(6);
export const rdi: Register = register(7);
export const r8: Register = register(8);
export const r9: Register = register(9);
export const r10: Register = register(10);
export const r11: Register = register(11);
export const r12: Register = register(12);
export const r13: Register = register(13);
export const r14: Register = register(14);
export const r15: Register = register(15);

export const zmm = (index: number): Vector => ({ kind: 'vector', index, byteLength: 64 });
export const ymm = (index: number): Vector => ({ kind: 'vector', index, byteLength: 32 });
export const xmm = (index: number): Vector => ({ kind: 'vector', index, byteLength: 16 });
export const tmm = (index: number): Tile => ({ kind: 'tile', index });
export const mask = (index: number): Mask => ({ kind: 'mask', index });

/** The memory `displacement` bytes behind the address in `base`. */
export function at(base: Register, displacement = 0): Memory {
  return { kind: 'memory', base, index: null, scale: 1, displacement };
}

/** The memory at base + index * scale + displacement. rsp cannot be the index. */
export function indexed(
  base: Register,
  index: Register,
  scale: 1 | 2 | 4 | 8 = 1,
  displacement = 0,
): Memory {
  return { kind: 'memory', base, index, scale, displacement };
}
