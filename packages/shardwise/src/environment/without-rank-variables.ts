/** Names by which a launcher tells a process which rank, node or task it is. */
const RANK_VARIABLES = [
  // torchrun, its options as variables, and the operators that set them
  /^(?:LOCAL_|GROUP_|ROLE_)?(?:RANK|WORLD_SIZE)$/,
  /^(?:GROUP|ROLE)_NAME$/,
  /^TORCHELASTIC_(?:RUN_ID|RESTART_COUNT|MAX_RESTARTS)$/,
  /^PET_/,
  /^JOB_COMPLETION_INDEX$/,
  /^LWS_(?:WORKER_INDEX|GROUP_SIZE|LEADER_ADDRESS)$/,
  // Open MPI: with these an MPI program below would take itself for this rank, and an mpirun would
  // refuse to start. What a user sets by OMPI_MCA_* (btl, pml, …) stays.
  /^OMPI_(?!MCA_)/,
  /^OMPI_MCA_(?:ess|orte_|pmix|initial_wdir|shmem_RUNTIME_QUERY_hint|mpi_oversubscribe|rmaps_base_oversubscribe)/,
  /^PMIX_(?!MCA_)/,
  /^PRTE_(?!MCA_)/,
  // hydra, and Slurm in its place
  /^PMI_/,
  /^HYDI_/,
  /^MPI_LOCAL(?:RANKID|NRANKS)$/,
  // Slurm: the step; the job stays, so that srun still works below
  /^SLURM_(?:PROCID|LOCALID|NODEID|GTIDS|TASK_PID)$/,
  /^SLURM_STEP(?:ID|_.*)$/,
  /^SLURM_PMIX/,
];

/**
 * The environment for child processes that are not the rank this process is: without what launchers
 * said about it. Addresses, tuning and the names of the job stay.
 */
export function withoutRankVariables(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => !RANK_VARIABLES.some((pattern) => pattern.test(name))),
  );
}
