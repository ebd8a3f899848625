/** The names of variables by which a launcher tells a process which rank, node or task it is. */
const RANK_VARIABLES = [
  // torchrun, its options as variables, and the operators that set them.
  /^(?:LOCAL_|GROUP_|ROLE_)?(?:RANK|WORLD_SIZE)$/,
  /^(?:GROUP|ROLE)_NAME$/,
  /^TORCHELASTIC_(?:RUN_ID|RESTART_COUNT|MAX_RESTARTS)$/,
  /^PET_/,
  /^JOB_COMPLETION_INDEX$/,
  /^LWS_(?:WORKER_INDEX|GROUP_SIZE|LEADER_ADDRESS)$/,
  // Open MPI. With these variables, an MPI program started from here would take itself for this rank, and an mpirun
  // would refuse to start. The settings of users (OMPI_MCA_btl, pml, …) stay.
  /^OMPI_(?!MCA_)/,
  /^OMPI_MCA_(?:ess|orte_|pmix|initial_wdir|shmem_RUNTIME_QUERY_hint|mpi_oversubscribe|rmaps_base_oversubscribe)/,
  /^PMIX_(?!MCA_)/,
  /^PRTE_(?!MCA_)/,
  // Hydra, and Slurm if it takes hydra's place.
  /^PMI_/,
  /^HYDI_/,
  /^MPI_LOCAL(?:RANKID|NRANKS)$/,
  // The step of Slurm. The variables of the job stay, so that srun still works in child processes.
  /^SLURM_(?:PROCID|LOCALID|NODEID|GTIDS|TASK_PID)$/,
  /^SLURM_STEP(?:ID|_.*)$/,
  /^SLURM_PMIX/,
];

/**
 * Returns the environment for child processes that are not this rank. It lacks what launchers said about this process.
 * Addresses, tuning and the names of the job stay.
 */
export function withoutRankVariables(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => !RANK_VARIABLES.some((pattern) => pattern.test(name))),
  );
}
