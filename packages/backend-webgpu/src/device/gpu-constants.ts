/** The constants that WebGPU calls GPUBufferUsage and GPUMapMode. Node does not define them. */
export const bufferUsage = {
  mapRead: 0x1,
  copySource: 0x4,
  copyDestination: 0x8,
  uniform: 0x40,
  storage: 0x80,
  queryResolve: 0x200,
} as const;

export const MAP_MODE_READ = 0x1;

/** On every device, a storage binding may begin at each multiple of this many bytes. */
export const BINDING_ALIGNMENT_BYTES = 256;
